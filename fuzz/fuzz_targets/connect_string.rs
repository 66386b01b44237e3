//! See `zk_fuzz::connect_string`.
#![cfg_attr(fuzzing, no_main)]

zk_fuzz::fuzz_target!(connect_string);
