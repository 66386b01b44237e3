//! Strategies for multi and multiRead.

use proptest::{collection::vec, option, prelude::*};
use zk_proto::*;

use super::strategies::*;

pub(crate) fn check() -> impl Strategy<Value = Check<'static>> {
    (cow_text(), any::<i32>()).prop_map(|(path, version)| Check { path, version })
}

pub(crate) fn multi_op() -> impl Strategy<Value = MultiOp<'static>> {
    prop_oneof![
        create().prop_map(MultiOp::Create),
        create2().prop_map(MultiOp::Create2),
        create_container().prop_map(MultiOp::CreateContainer),
        create_ttl().prop_map(MultiOp::CreateTtl),
        delete().prop_map(MultiOp::Delete),
        set_data().prop_map(MultiOp::SetData),
        check().prop_map(MultiOp::Check),
    ]
}

pub(crate) fn multi() -> impl Strategy<Value = Multi<'static>> {
    vec(multi_op(), 0..6).prop_map(|ops| Multi { ops: ops.into() })
}

fn multi_result() -> impl Strategy<Value = MultiResult> {
    prop_oneof![
        (text(), option::of(stat())).prop_map(|(path, stat)| MultiResult::Created { path, stat }),
        Just(MultiResult::Deleted),
        stat().prop_map(MultiResult::Set),
        Just(MultiResult::Checked),
        any::<i32>().prop_map(|code| MultiResult::Error(ErrorCode(code))),
    ]
}

pub(crate) fn multi_reply() -> impl Strategy<Value = MultiReply> {
    vec(multi_result(), 0..6).prop_map(|results| MultiReply { results })
}

pub(crate) fn multi_read() -> impl Strategy<Value = MultiRead<'static>> {
    let op = prop_oneof![
        get_data().prop_map(MultiReadOp::GetData),
        get_children().prop_map(MultiReadOp::GetChildren),
    ];
    vec(op, 0..6).prop_map(|ops| MultiRead { ops: ops.into() })
}

pub(crate) fn multi_read_reply() -> impl Strategy<Value = MultiReadReply> {
    let result = prop_oneof![
        data_reply().prop_map(MultiReadResult::Data),
        child_list().prop_map(MultiReadResult::Children),
        any::<i32>().prop_map(|code| MultiReadResult::Error(ErrorCode(code))),
    ];
    vec(result, 0..6).prop_map(|results| MultiReadReply { results })
}
