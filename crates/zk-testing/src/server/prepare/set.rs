//! Validation of setData, setACL, and the check of a multi.

use bytes::Bytes;
use proto::{ErrorCode, Perms};

use super::{Preparation, next_version};
use crate::server::acl::{self, AskedAcl};
use crate::server::quota;
use crate::server::txn::TxnOp;

impl Preparation<'_> {
    pub(crate) fn set_data(
        &mut self,
        path: Option<&str>,
        data: Option<&[u8]>,
        expected: i32,
    ) -> Result<TxnOp, ErrorCode> {
        let path = self.target(path)?;
        let mut record = self.record(path)?;
        self.permit(&record, Perms::WRITE)?;
        if self.settings.enforces_quota() {
            let before = self.tree.node(path).map_or(0, |node| signed(node.data_len()));
            let after = signed(data.map_or(0, <[u8]>::len));
            quota::check(self.tree, path, 0, after - before)?;
        }
        let version = next_version(expected, record.version)?;
        record.version = version;
        self.remember(path, || Some(record));
        let data = data.or_else(|| self.null_data()).map(Bytes::copy_from_slice);
        Ok(TxnOp::SetData { path: path.into(), data, version })
    }

    pub(crate) fn set_acl(
        &self,
        path: Option<&str>,
        acl: Option<&[AskedAcl<'_>]>,
        expected: i32,
    ) -> Result<TxnOp, ErrorCode> {
        if self.settings.version.is_keeper_like() {
            return self.set_acl_at_keeper(path, acl, expected);
        }
        let path = self.validate(path)?;
        let acl = acl::resolve(self.settings, self.asked(acl)?, self.identities, self.open)?;
        let record = self.record(path)?;
        self.permit(&record, Perms::ADMIN)?;
        let aversion = next_version(expected, record.aversion)?;
        Ok(TxnOp::SetAcl { path: path.into(), acl, aversion })
    }

    pub(crate) fn check(&self, path: Option<&str>, expected: i32) -> Result<TxnOp, ErrorCode> {
        let path = self.target(path)?;
        let record = self.record(path)?;
        self.permit(&record, Perms::READ)?;
        next_version(expected, record.version)?;
        Ok(TxnOp::Check)
    }

    /// Returns the path of an existing node, if the server takes it.
    fn target<'p>(&self, path: Option<&'p str>) -> Result<&'p str, ErrorCode> {
        if self.settings.version.is_keeper_like() {
            self.target_at_keeper(path)
        } else {
            self.validate(path)
        }
    }

    /// Returns what null is as data. A Keeper stores it as no bytes.
    fn null_data(&self) -> Option<&'static [u8]> {
        self.settings.version.is_keeper_like().then_some(&[])
    }
}

fn signed(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}
