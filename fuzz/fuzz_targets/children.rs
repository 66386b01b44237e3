//! See `zk_fuzz::children`.
#![cfg_attr(fuzzing, no_main)]

zk_fuzz::fuzz_target!(children);
