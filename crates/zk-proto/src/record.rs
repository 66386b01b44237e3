//! Codec of a record, from the definition of its struct.
//!
//! ```text
//! record! {
//!     /// Request to replace a node's ACL.
//!     #[derive(Debug, Clone, PartialEq, Eq)]
//!     pub struct SetAcl<'a> as "SetACLRequest" {
//!         /// The path.
//!         pub path: Cow<'a, str>,
//!         /// The new ACL.
//!         pub acl: Cow<'a, [Acl]>,
//!         /// The version that the current ACL must have.
//!         pub aversion: i32 as "version",
//!     }
//! }
//!
//! request!(SetAcl<'_>: OpCode::SetAcl -> Stat, path);
//! ```
//!
//! `as` gives the name in ZooKeeper's definitions, for [`DecodeError`]. Without it, a field has the same name
//! there. The type of a field determines its bytes ([`Plain`]), unless `by` names another [`Form`]:
//! `pub scheme: Cow<'a, str> as "scheme" by NullAsEmpty`. A record in a record names its fields itself.
//!
//! [`forms!`] adds types of fields. [`Stat`](crate::Stat) and [`Acl`](crate::Acl) have a codec by hand: a
//! Stat is written at once, and a decoded ACL borrows nothing from its frame.

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};

use crate::wire::{
    Decode, DecodeError, Encode, Reader,
    writer::{self, BOOL_LEN, INT_LEN, LONG_LEN},
};

/// Defines the struct of a record and implements [`Encode`] and [`Decode`] for it.
macro_rules! record {
    (
        $(#[$attribute:meta])*
        $visible:vis struct $name:ident as $record:literal;
    ) => {
        $(#[$attribute])*
        $visible struct $name;

        impl $crate::wire::Encode for $name {
            fn encoded_len(&self) -> usize {
                0
            }

            fn encode(&self, _out: &mut bytes::BytesMut) {}
        }

        impl<'a> $crate::wire::Decode<'a> for $name {
            const RECORD: &'static str = $record;

            fn decode(_r: &mut $crate::wire::Reader<'a>) -> Result<Self, $crate::wire::DecodeError> {
                Ok(Self)
            }
        }
    };
    (
        $(#[$attribute:meta])*
        $visible:vis struct $name:ident as $record:literal { $($fields:tt)* }
    ) => {
        $crate::record::record! { @codec $record
            [$(#[$attribute])* $visible struct $name]
            [impl $crate::wire::Encode for $name]
            [impl<'a> $crate::wire::Decode<'a> for $name]
            $($fields)*
        }
    };
    (
        $(#[$attribute:meta])*
        $visible:vis struct $name:ident<'a $(, const $number:ident: i32)?> as $record:literal {
            $($fields:tt)*
        }
    ) => {
        $crate::record::record! { @codec $record
            [$(#[$attribute])* $visible struct $name<'a $(, const $number: i32)?>]
            [impl $(<const $number: i32>)? $crate::wire::Encode for $name<'_ $(, $number)?>]
            [impl<'a $(, const $number: i32)?> $crate::wire::Decode<'a> for $name<'a $(, $number)?>]
            $($fields)*
        }
    };
    (
        @codec $record:literal [$($struct:tt)*] [$($encode:tt)*] [$($decode:tt)*]
        $(
            $(#[$attribute:meta])*
            $visible:vis $field:ident: $type:ty $(as $wire_name:literal $(by $form:ty)?)?,
        )*
    ) => {
        $($struct)* {
            $(
                $(#[$attribute])*
                $visible $field: $type,
            )*
        }

        $($encode)* {
            fn encoded_len(&self) -> usize {
                use $crate::record::{Form, form};
                0 $(+ <form!($($($form)?)?) as Form<'_, _>>::len(&self.$field))*
            }

            fn encode(&self, out: &mut bytes::BytesMut) {
                use $crate::record::{Form, form};
                $(<form!($($($form)?)?) as Form<'_, _>>::put(&self.$field, out);)*
            }
        }

        $($decode)* {
            const RECORD: &'static str = $record;

            fn decode(r: &mut $crate::wire::Reader<'a>) -> Result<Self, $crate::wire::DecodeError> {
                use $crate::record::{Form, form, wire_name};
                Ok(Self {
                    $($field: <form!($($($form)?)?) as Form<'a, _>>::read(
                        r,
                        wire_name!($field $($wire_name)?),
                    )?,)*
                })
            }
        }
    };
}

/// Names the form of a field: [`Plain`] by default.
macro_rules! form {
    () => {
        $crate::record::Plain
    };
    ($form:ty) => {
        $form
    };
}

/// Names a field for errors: by default as in the struct.
macro_rules! wire_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $wire_name:literal) => {
        $wire_name
    };
}

/// Implements [`Request`](crate::Request): opcode, reply, and the field with the path of the node, if any.
macro_rules! request {
    ($type:ty: OpCode::$op:ident -> $reply:ty $(, $path:ident)?) => {
        impl $crate::request::Request for $type {
            const OP: OpCode = OpCode::$op;
            type Reply = $reply;

            fn path(&self) -> Option<&str> {
                $crate::record::node_path!(self $($path)?)
            }
        }
    };
}

macro_rules! node_path {
    ($request:ident) => {
        None
    };
    ($request:ident $path:ident) => {
        Some(&$request.$path)
    };
}

pub(crate) use {form, node_path, record, request, wire_name};

/// Bytes of a field of type `T`.
pub(crate) trait Form<'a, T> {
    /// Returns the number of bytes that [`put`](Self::put) appends.
    fn len(value: &T) -> usize;

    /// Appends the bytes of the value.
    fn put(value: &T, out: &mut BytesMut);

    /// Reads the value; `field` is its name for errors.
    fn read(r: &mut Reader<'a>, field: &'static str) -> Result<T, DecodeError>;
}

/// Form that the type of the field determines.
pub(crate) struct Plain;

/// Form of a field that must not be null, but reads null as empty.
pub(crate) struct NullAsEmpty;

/// Form of text of a server, see [`put_java_text`](writer::put_java_text).
pub(crate) struct JavaText;

/// Record in a record.
impl<'a, T: Encode + Decode<'a>> Form<'a, T> for Plain {
    #[inline]
    fn len(value: &T) -> usize {
        value.encoded_len()
    }

    #[inline]
    fn put(value: &T, out: &mut BytesMut) {
        value.encode(out);
    }

    #[inline]
    fn read(r: &mut Reader<'a>, _field: &'static str) -> Result<T, DecodeError> {
        T::decode(r)
    }
}

/// Implements a [`Form`] for types, each with the length of a value, how to append it, and how to read it.
macro_rules! forms {
    ($form:ty: $(
        $type:ty => |$value:pat_param| $len:expr, |$put_value:ident, $out:ident| $put:expr,
        |$r:ident, $field:pat_param| $read:expr;
    )*) => {$(
        impl<'a> $crate::record::Form<'a, $type> for $form {
            #[inline]
            fn len($value: &$type) -> usize {
                $len
            }

            #[inline]
            fn put($put_value: &$type, $out: &mut bytes::BytesMut) {
                $put;
            }

            #[inline]
            fn read(
                $r: &mut $crate::wire::Reader<'a>,
                $field: &'static str,
            ) -> Result<$type, $crate::wire::DecodeError> {
                $read
            }
        }
    )*};
}

pub(crate) use forms;

forms! { Plain:
    bool => |_| BOOL_LEN, |value, out| writer::put_bool(out, *value), |r, field| r.bool(field);
    i32 => |_| INT_LEN, |value, out| out.put_i32(*value), |r, field| r.i32(field);
    i64 => |_| LONG_LEN, |value, out| out.put_i64(*value), |r, field| r.i64(field);
    String =>
        |text| writer::text_len(text),
        |text, out| writer::put_text(out, text),
        |r, field| r.text(field).map(Cow::into_owned);
    Cow<'a, str> =>
        |text| writer::text_len(text),
        |text, out| writer::put_text(out, text),
        |r, field| r.text(field);
    Option<Cow<'a, str>> =>
        |text| writer::opt_text_len(text.as_deref()),
        |text, out| writer::put_opt_text(out, text.as_deref()),
        |r, field| r.opt_text(field);
    Option<Cow<'a, [u8]>> =>
        |data| writer::buffer_len(data.as_deref()),
        |data, out| writer::put_buffer(out, data.as_deref()),
        |r, field| Ok(r.slice(field)?.map(Cow::Borrowed));
    Option<Bytes> =>
        |data| writer::buffer_len(data.as_deref()),
        |data, out| writer::put_buffer(out, data.as_deref()),
        |r, field| r.buffer(field);
}

forms! { NullAsEmpty:
    Cow<'a, str> =>
        |text| writer::text_len(text),
        |text, out| writer::put_text(out, text),
        |r, field| Ok(r.opt_text(field)?.unwrap_or_default());
    Bytes =>
        |data| writer::buffer_len(Some(data)),
        |data, out| writer::put_buffer(out, Some(data)),
        |r, field| Ok(r.buffer(field)?.unwrap_or_default());
}

forms! { JavaText:
    String =>
        |text| writer::java_text_len(text),
        |text, out| writer::put_java_text(out, text),
        |r, field| r.text(field).map(Cow::into_owned);
}
