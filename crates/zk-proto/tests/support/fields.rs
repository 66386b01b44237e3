//! A proptest strategy for each type of a field, and from these for each record.

use std::{borrow::Cow, fmt::Debug};

use bytes::Bytes;
use proptest::{collection::vec, option, prelude::*};
use zk_proto::*;

/// A type of a field, or a record.
pub(crate) trait Field: Debug + Sized {
    /// Returns a strategy of any value.
    fn any() -> BoxedStrategy<Self>
    where
        Self: 'static;
}

macro_rules! fields {
    ($($field:ty = $strategy:expr;)*) => {
        $(
            impl Field for $field {
                fn any() -> BoxedStrategy<Self>
                where
                    Self: 'static,
                {
                    $strategy.boxed()
                }
            }
        )*
    };
}

fields! {
    bool = any::<bool>();
    u8 = any::<u8>();
    i32 = any::<i32>();
    i64 = any::<i64>();
    Zxid = any::<i64>().prop_map(Zxid);
    SessionId = any::<i64>().prop_map(SessionId);
    Perms = any::<i32>().prop_map(Perms);
    ErrorCode = any::<i32>().prop_map(ErrorCode);
    EventType = any::<i32>().prop_map(EventType);
    KeeperState = any::<i32>().prop_map(KeeperState);
    CreateMode = (0..=4).prop_filter_map("a known mode", CreateMode::from_flags);
    AddWatchMode = (0..=1).prop_filter_map("a known mode", AddWatchMode::from_code);
    WatcherType = (1..=5).prop_filter_map("a known type", WatcherType::from_code);
    // Mostly similar to a path.
    String = prop_oneof![3 => "(/[a-z0-9_-]{1,12}){1,4}", 1 => any::<String>()];
    Cow<'_, str> = String::any().prop_map(Cow::Owned);
    Bytes = vec(any::<u8>(), 0..40).prop_map(Bytes::from);
    // Names of arbitrary bytes, because a server does not guarantee UTF-8.
    ChildList = Vec::<Vec<u8>>::any().prop_map(ChildList::from_names);
    MultiOp<'_> = prop_oneof![
        Create::any().prop_map(MultiOp::Create),
        Create2::any().prop_map(MultiOp::Create2),
        CreateContainer::any().prop_map(MultiOp::CreateContainer),
        CreateTtl::any().prop_map(MultiOp::CreateTtl),
        Delete::any().prop_map(MultiOp::Delete),
        SetData::any().prop_map(MultiOp::SetData),
        Check::any().prop_map(MultiOp::Check),
    ];
    MultiResult = prop_oneof![
        (Field::any(), Field::any()).prop_map(|(path, stat)| MultiResult::Created { path, stat }),
        Just(MultiResult::Deleted),
        Stat::any().prop_map(MultiResult::Set),
        Just(MultiResult::Checked),
        ErrorCode::any().prop_map(MultiResult::Error),
    ];
    MultiReadOp<'_> = prop_oneof![
        GetData::any().prop_map(MultiReadOp::GetData),
        GetChildren::any().prop_map(MultiReadOp::GetChildren),
    ];
    MultiReadResult = prop_oneof![
        DataReply::any().prop_map(MultiReadResult::Data),
        ChildList::any().prop_map(MultiReadResult::Children),
        ErrorCode::any().prop_map(MultiReadResult::Error),
    ];
}

impl<T: Field + 'static> Field for Vec<T> {
    fn any() -> BoxedStrategy<Self> {
        vec(T::any(), 0..5).boxed()
    }
}

impl<T: Field + 'static> Field for Option<T> {
    fn any() -> BoxedStrategy<Self> {
        option::of(T::any()).boxed()
    }
}

impl<T: Field + Clone + 'static> Field for Cow<'static, [T]> {
    fn any() -> BoxedStrategy<Self> {
        Vec::<T>::any().prop_map(Cow::Owned).boxed()
    }
}

impl<T: Field + Clone + 'static> Field for OpList<'static, T> {
    fn any() -> BoxedStrategy<Self> {
        Vec::<T>::any().prop_map(OpList::from).boxed()
    }
}

/// Returns the strategy of a field. Its type follows from the record.
fn named<T: Field + 'static>(_name: &str) -> BoxedStrategy<T> {
    T::any()
}

/// Implements [`Field`] for a record with its fields.
macro_rules! record_field {
    ($record:ident [$($lifetime:lifetime)?]) => {};
    ($record:ident [$($lifetime:lifetime)?] { $($field:ident),* }) => {
        impl Field for $record$(<$lifetime>)? {
            fn any() -> BoxedStrategy<Self>
            where
                Self: 'static,
            {
                let fields = (Just(()), $(named(stringify!($field)),)*);
                fields.prop_map(|((), $($field,)*)| $record { $($field),* }).boxed()
            }
        }
    };
}

macro_rules! record_fields {
    ($($name:ident: $record:ident$(<$lifetime:lifetime>)? $({ $($field:ident),* })?;)*) => {
        $(record_field! { $record [$($lifetime)?] $({ $($field),* })? })*
    };
}

super::for_all_records!(record_fields);
