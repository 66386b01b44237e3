//! Errors of the data of an instance.

use std::fmt;

use crate::limits::VALUE_SHOWN_MAX;

/// Reason why data is not an instance.
///
/// `Debug` prints the same line as `Display`, so that `main` may return this error.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InstanceError {
    /// The data is not JSON, or not an object.
    Json {
        /// Message of the JSON parser, with the position.
        message: String,
    },
    /// A field has a value that Curator does not write there.
    Field {
        /// Name of the field.
        field: &'static str,
        /// Start of the value.
        value: String,
        /// Description of an accepted value.
        expected: &'static str,
    },
    /// The braces of a [`UriSpec`](super::UriSpec) do not match.
    UriSpec {
        /// The text.
        spec: String,
    },
}

impl InstanceError {
    pub(super) fn field(field: &'static str, value: &str, expected: &'static str) -> Self {
        let value = value.chars().take(VALUE_SHOWN_MAX).collect();
        Self::Field { field, value, expected }
    }
}

impl fmt::Display for InstanceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json { message } => write!(f, "not the JSON of a service instance: {message}"),
            Self::Field { field, value, expected } => {
                write!(f, "field {field} of a service instance is {value}, not {expected}")
            }
            Self::UriSpec { spec } => {
                write!(f, "braces do not match in the URI pattern {spec:?}")
            }
        }
    }
}

impl fmt::Debug for InstanceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for InstanceError {}
