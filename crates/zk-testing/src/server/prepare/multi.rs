//! multi: each operation is validated against what those before it will have done.

use std::collections::HashMap;

use proto::{CreateMode, ErrorCode, MultiOp};

use super::{CreateArgs, Preparation};
use crate::server::txn::TxnOp;

impl Preparation<'_> {
    /// All changes, or where the first failure is and what it is.
    pub(crate) fn multi(&mut self, ops: &[MultiOp<'_>]) -> Result<Vec<TxnOp>, (usize, ErrorCode)> {
        self.pending = Some(HashMap::new());
        let prepare = |(at, op)| self.multi_op(op).map_err(|code| (at, code));
        ops.iter().enumerate().map(prepare).collect()
    }

    fn multi_op(&mut self, op: &MultiOp<'_>) -> Result<TxnOp, ErrorCode> {
        match op {
            // The parser makes a createContainer of these flags.
            MultiOp::Create(op) if op.mode == CreateMode::Container => {
                self.create(&CreateArgs::of_container(op))
            }
            MultiOp::Create2(op) if op.mode == CreateMode::Container => {
                self.create(&CreateArgs::of_container(op))
            }
            MultiOp::Create(op) => self.create(&CreateArgs::of_create(op, false)),
            MultiOp::Create2(op) => {
                let wants_stat = self.settings.version.create2_in_multi_has_stat();
                self.create(&CreateArgs::of_create(op, wants_stat))
            }
            MultiOp::CreateContainer(op) => self.create(&CreateArgs::of_container(op)),
            MultiOp::CreateTtl(op) => self.create(&CreateArgs::of_ttl(op)),
            MultiOp::Delete(op) => self.delete(&op.path, op.version),
            MultiOp::SetData(op) => self.set_data(&op.path, op.data.as_deref(), op.version),
            MultiOp::Check(op) => self.check(&op.path, op.version),
            // The server's parser knows no others, nor does the codec.
            _ => Err(ErrorCode::MARSHALLING_ERROR),
        }
    }
}
