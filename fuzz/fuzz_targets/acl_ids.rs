//! See `zk_fuzz::acl_ids`.
#![cfg_attr(fuzzing, no_main)]

zk_fuzz::fuzz_target!(acl_ids);
