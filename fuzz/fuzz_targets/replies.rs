//! See `zk_fuzz::replies`.
#![cfg_attr(fuzzing, no_main)]

zk_fuzz::fuzz_target!(replies);
