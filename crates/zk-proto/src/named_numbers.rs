//! Numbers on the wire that have names in ZooKeeper: error codes, event types, states.

/// Declares the constants of a number and their names in one table. `Debug` prints the name.
macro_rules! named_numbers {
    ($type:ident: $($(#[$doc:meta])* $constant:ident = $number:literal, $name:literal;)*) => {
        impl $type {
            $($(#[$doc])* pub const $constant: Self = Self($number);)*

            /// Returns ZooKeeper's name for the number, or `None` for an unknown number.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$constant => Some($name),)*
                    _ => None,
                }
            }
        }

        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, concat!(stringify!($type), "({})"), self.0),
                }
            }
        }
    };
}

pub(crate) use named_numbers;
