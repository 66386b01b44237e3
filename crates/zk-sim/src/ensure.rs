//! Results of checks.

/// Returns an error with this text, unless a check has succeeded.
pub(crate) fn ensure(is_true: bool, text: impl FnOnce() -> String) -> Result<(), String> {
    if is_true { Ok(()) } else { Err(text()) }
}
