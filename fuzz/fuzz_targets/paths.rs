//! See `zk_fuzz::paths`.
#![cfg_attr(fuzzing, no_main)]

zk_fuzz::fuzz_target!(paths);
