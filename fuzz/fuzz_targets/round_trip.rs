//! See `zk_fuzz::round_trip`.
#![cfg_attr(fuzzing, no_main)]

zk_fuzz::fuzz_target!(round_trip);
