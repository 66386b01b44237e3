//! create, create2, createContainer, createTTL.

use bytes::Bytes;
use proto::{Acl, CreateMode, CreateRequest, CreateTtl, ErrorCode, Perms};

use super::{Preparation, Record, validate};
use crate::server::acl;
use crate::server::node::NodeKind;
use crate::server::quota;
use crate::server::tree::parent_of;
use crate::server::txn::{CreateTxn, TxnOp};

/// The longest time to live, in milliseconds: 40 bits.
const TTL_MAX_MS: i64 = (1 << 40) - 1;

/// A creation asked for.
#[derive(Debug)]
pub(crate) struct CreateArgs<'a> {
    pub(crate) path: &'a str,
    pub(crate) data: Option<&'a [u8]>,
    pub(crate) acl: &'a [Acl],
    pub(crate) op: CreateOp,
    /// Whether the client gets a Stat.
    pub(crate) wants_stat: bool,
}

/// What kind of node, as opcode and flags say it together.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CreateOp {
    Mode(CreateMode),
    Container { sequential: bool },
    Ttl { sequential: bool, ttl_ms: i64 },
}

impl<'a> CreateArgs<'a> {
    /// create or create2: what the flags say, but for the container, which becomes a plain node.
    pub(crate) fn of_create<const OP: i32>(
        request: &'a CreateRequest<'_, OP>,
        wants_stat: bool,
    ) -> Self {
        Self::new(request, CreateOp::Mode(request.mode), wants_stat)
    }

    /// createContainer: of the flags only the sequence number counts.
    pub(crate) fn of_container<const OP: i32>(request: &'a CreateRequest<'_, OP>) -> Self {
        let op = CreateOp::Container { sequential: request.mode.is_sequential() };
        Self::new(request, op, true)
    }

    /// createTTL.
    pub(crate) fn of_ttl(request: &'a CreateTtl<'_>) -> Self {
        Self {
            path: &request.path,
            data: request.data.as_deref(),
            acl: &request.acl,
            op: CreateOp::Ttl { sequential: request.sequential, ttl_ms: request.ttl_ms },
            wants_stat: true,
        }
    }

    fn new<const OP: i32>(
        request: &'a CreateRequest<'_, OP>,
        op: CreateOp,
        wants_stat: bool,
    ) -> Self {
        Self {
            path: &request.path,
            data: request.data.as_deref(),
            acl: &request.acl,
            op,
            wants_stat,
        }
    }
}

impl CreateOp {
    fn is_sequential(self) -> bool {
        match self {
            Self::Mode(mode) => mode.is_sequential(),
            Self::Container { sequential } | Self::Ttl { sequential, .. } => sequential,
        }
    }

    fn kind(self, session_id: i64) -> NodeKind {
        match self {
            Self::Mode(mode) if mode.is_ephemeral() => NodeKind::Ephemeral(session_id),
            Self::Mode(_) => NodeKind::Persistent,
            Self::Container { .. } => NodeKind::Container,
            Self::Ttl { ttl_ms, .. } => NodeKind::Ttl(ttl_ms),
        }
    }
}

impl Preparation<'_> {
    pub(crate) fn create(&mut self, args: &CreateArgs<'_>) -> Result<TxnOp, ErrorCode> {
        if let CreateOp::Ttl { ttl_ms, .. } = args.op {
            if !self.settings.extended_types {
                return Err(ErrorCode::UNIMPLEMENTED);
            }
            if !(1..=TTL_MAX_MS).contains(&ttl_ms) {
                return Err(ErrorCode::BAD_ARGUMENTS);
            }
        }
        if !args.path.contains('/') || args.path.contains('\0') {
            return Err(ErrorCode::BAD_ARGUMENTS);
        }
        let acl = acl::resolve(self.settings.version, args.acl, self.identities, self.open)?;
        let parent_path = parent_of(args.path);
        let mut parent = self.record(parent_path)?;
        self.permit(&parent, Perms::CREATE)?;
        let path: Box<str> = if args.op.is_sequential() {
            format!("{}{:010}", args.path, parent.creates).into()
        } else {
            args.path.into()
        };
        validate(&path)?;
        if self.record(&path).is_ok() {
            return Err(ErrorCode::NODE_EXISTS);
        }
        if parent.is_ephemeral {
            return Err(ErrorCode::NO_CHILDREN_FOR_EPHEMERALS);
        }
        if self.settings.enforce_quota {
            let bytes = args.data.map_or(0, <[u8]>::len);
            quota::check(self.tree, &path, 1, i64::try_from(bytes).unwrap_or(i64::MAX))?;
        }

        parent.creates = parent.creates.wrapping_add(1);
        parent.children += 1;
        let (kind, parent_creates) = (args.op.kind(self.session_id), parent.creates);
        self.remember(parent_path, || Some(parent));
        self.remember(&path, || {
            let is_ephemeral = matches!(kind, NodeKind::Ephemeral(_));
            let acl = acl.clone();
            Some(Record { acl, version: 0, aversion: 0, creates: 0, children: 0, is_ephemeral })
        });
        let data = args.data.map(Bytes::copy_from_slice);
        let wants_stat = args.wants_stat;
        Ok(TxnOp::Create(CreateTxn { path, data, acl, kind, parent_creates, wants_stat }))
    }
}
