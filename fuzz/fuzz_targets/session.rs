//! See `zk_fuzz::session`.
#![cfg_attr(fuzzing, no_main)]

zk_fuzz::fuzz_target!(session);
