//! See `zk_fuzz::requests`.
#![cfg_attr(fuzzing, no_main)]

zk_fuzz::fuzz_target!(requests);
