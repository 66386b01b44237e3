//! See `zk_fuzz::digest_md5`.
#![cfg_attr(fuzzing, no_main)]

zk_fuzz::fuzz_target!(digest_md5);
