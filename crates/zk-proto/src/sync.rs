//! Request that makes a server catch up with the leader.
//!
//! ```text
//! SyncRequest   path: ustring
//! SyncResponse  path: ustring
//! ```

use std::borrow::Cow;

use crate::{
    record::{JavaText, NullAsEmpty, forms, record, request},
    request::OpCode,
    wire::writer,
};

record! {
    /// Request to bring the server up to date with the leader.
    ///
    /// Later reads *on the same connection* see at least the leader's state at the sync. It is no
    /// transaction, and a leader that was just deposed may still reply to it. The server ignores the path and
    /// returns it unchanged.
    ///
    /// ```
    /// use zk_proto::{Decode, Encode, Sync, SyncReply};
    /// use bytes::BytesMut;
    ///
    /// let mut echo = BytesMut::new();
    /// Sync { path: "/a".into() }.encode(&mut echo);
    /// let reply = SyncReply::from_frame(&echo.freeze())?;
    /// assert_eq!(reply.path.as_deref(), Some("/a"));
    /// # Ok::<(), zk_proto::DecodeError>(())
    /// ```
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Sync<'a> as "SyncRequest" {
        /// The path that the server returns. Null reads as empty.
        pub path: Cow<'a, str> as "path" by NullAsEmpty,
    }
}

request!(Sync<'_>: OpCode::Sync -> SyncReply, path);

record! {
    /// Reply to [`Sync`]: the server has caught up.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SyncReply as "SyncResponse" {
        /// The path of the request; null if that was null.
        pub path: Option<String> as "path" by JavaText,
    }
}

forms! { JavaText:
    Option<String> =>
        |text| text.as_deref().map_or(writer::INT_LEN, writer::java_text_len),
        |text, out| match text {
            Some(text) => writer::put_java_text(out, text),
            None => writer::put_opt_text(out, None),
        },
        |r, field| Ok(r.opt_text(field)?.map(Cow::into_owned));
}
