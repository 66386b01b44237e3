//! See `zk_fuzz::frames`.
#![cfg_attr(fuzzing, no_main)]

zk_fuzz::fuzz_target!(frames);
