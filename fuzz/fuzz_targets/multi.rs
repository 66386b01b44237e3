//! See `zk_fuzz::multi`.
#![cfg_attr(fuzzing, no_main)]

zk_fuzz::fuzz_target!(multi);
