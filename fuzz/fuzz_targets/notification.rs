//! See `zk_fuzz::notification`.
#![cfg_attr(fuzzing, no_main)]

zk_fuzz::fuzz_target!(notification);
