//! See `zk_fuzz::connect`.
#![cfg_attr(fuzzing, no_main)]

zk_fuzz::fuzz_target!(connect);
