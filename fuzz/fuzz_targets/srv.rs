//! See `zk_fuzz::srv`.
#![cfg_attr(fuzzing, no_main)]

zk_fuzz::fuzz_target!(srv);
