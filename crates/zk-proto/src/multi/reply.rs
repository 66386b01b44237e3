//! Results of a transaction.

use std::borrow::Cow;

use bytes::{BufMut, BytesMut};

use super::header::{MultiHeader, NO_TYPE, list_len, put_list, read_list};
use crate::{
    code::ErrorCode,
    record::{Plain, forms, record},
    request::OpCode,
    stat::Stat,
    wire::{
        Decode, DecodeError, DecodeErrorKind, Encode, Reader,
        writer::{self, INT_LEN},
    },
};

record! {
    /// Results of a [`Multi`](crate::Multi), in the order of its operations.
    ///
    /// Either all results are errors or none is: see [`failure`](Self::failure).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct MultiReply as "MultiResponse" {
        /// One result for each operation.
        pub results: Vec<MultiResult>,
    }
}

impl MultiReply {
    /// Returns the index of the operation that failed, from 0, and its error. Returns `None` if no result is
    /// an error.
    ///
    /// `None` means success if the reply has a result for each operation.
    ///
    /// No server sends a reply in which all errors have the code [`OK`](ErrorCode::OK). Such a reply is a
    /// failure too. The function returns its first error as
    /// [`RUNTIME_INCONSISTENCY`](ErrorCode::RUNTIME_INCONSISTENCY).
    ///
    /// ```
    /// use zk_proto::{ErrorCode, MultiReply, MultiResult::Error};
    ///
    /// let results = vec![
    ///     Error(ErrorCode::OK),                    // would have succeeded
    ///     Error(ErrorCode::BAD_VERSION),           // failed
    ///     Error(ErrorCode::RUNTIME_INCONSISTENCY), // was not attempted
    /// ];
    /// assert_eq!(MultiReply { results }.failure(), Some((1, ErrorCode::BAD_VERSION)));
    /// ```
    #[must_use]
    pub fn failure(&self) -> Option<(usize, ErrorCode)> {
        let mut errors = self.results.iter().enumerate().filter_map(|(at, result)| match result {
            MultiResult::Error(code) => Some((at, *code)),
            _ => None,
        });
        let (first, code) = errors.next()?;
        if !code.is_ok() {
            return Some((first, code));
        }
        let blamed = errors.find(|(_, code)| !code.is_ok());
        Some(blamed.unwrap_or((first, ErrorCode::RUNTIME_INCONSISTENCY)))
    }
}

forms! { Plain:
    Vec<MultiResult> =>
        |results| list_len(results),
        |results, out| put_list(out, results),
        |r, _| read_list(r, MultiResult::decode_body);
}

/// Result of one operation of a [`Multi`](crate::Multi).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MultiResult {
    /// The node was created.
    Created {
        /// The path, with the sequence number if there is one.
        path: String,
        /// The node's Stat right after this operation. Servers send none for a create, unless it creates a
        /// container. Servers before 3.7.2 or 3.8.2 send none for a create2 either.
        stat: Option<Stat>,
    },
    /// The node was deleted.
    Deleted,
    /// The node's data was set. The Stat is that right after this operation.
    Set(Stat),
    /// The node has the expected version.
    Checked,
    /// The transaction was not applied. The failed operation has its error, earlier operations have
    /// [`OK`](ErrorCode::OK), later ones [`RUNTIME_INCONSISTENCY`](ErrorCode::RUNTIME_INCONSISTENCY).
    Error(ErrorCode),
}

impl MultiResult {
    const fn header(&self) -> MultiHeader {
        let (result_type, err) = match self {
            Self::Created { stat: None, .. } => (OpCode::Create.code(), ErrorCode::OK),
            Self::Created { stat: Some(_), .. } => (OpCode::Create2.code(), ErrorCode::OK),
            Self::Deleted => (OpCode::Delete.code(), ErrorCode::OK),
            Self::Set(_) => (OpCode::SetData.code(), ErrorCode::OK),
            Self::Checked => (OpCode::Check.code(), ErrorCode::OK),
            Self::Error(code) => (NO_TYPE, *code),
        };
        MultiHeader::result(result_type, err)
    }

    fn decode_body(r: &mut Reader<'_>, code: i32, start: usize) -> Result<Self, DecodeError> {
        if code == NO_TYPE {
            return Ok(Self::Error(ErrorCode(r.i32("error.err")?)));
        }
        Ok(match OpCode::from_code(code) {
            Some(OpCode::Create) => {
                Self::Created { path: r.text("create.path").map(Cow::into_owned)?, stat: None }
            }
            Some(OpCode::Create2) => Self::Created {
                path: r.text("create.path").map(Cow::into_owned)?,
                stat: Some(Stat::decode(r)?),
            },
            Some(OpCode::Delete) => Self::Deleted,
            Some(OpCode::SetData) => Self::Set(Stat::decode(r)?),
            Some(OpCode::Check) => Self::Checked,
            _ => return Err(r.error("type", start, DecodeErrorKind::UnknownValue(code))),
        })
    }
}

impl Encode for MultiResult {
    fn encoded_len(&self) -> usize {
        MultiHeader::LEN
            + match self {
                Self::Created { path, stat } => {
                    writer::text_len(path) + stat.map_or(0, |_| Stat::LEN)
                }
                Self::Set(_) => Stat::LEN,
                Self::Error(_) => INT_LEN,
                Self::Deleted | Self::Checked => 0,
            }
    }

    fn encode(&self, out: &mut BytesMut) {
        self.header().encode(out);
        match self {
            Self::Created { path, stat } => {
                writer::put_text(out, path);
                if let Some(stat) = stat {
                    stat.encode(out);
                }
            }
            Self::Set(stat) => stat.encode(out),
            Self::Error(code) => out.put_i32(code.0),
            Self::Deleted | Self::Checked => {}
        }
    }
}
