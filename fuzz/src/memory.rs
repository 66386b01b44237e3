//! Limit of a decoder's allocations.

/// Maximum memory at any time for each byte of a frame, in bytes.
///
/// The worst case is a list of results of a multi. A result can have nine bytes on the wire and takes 104 in
/// memory, because it has room for a path and a Stat.
const PER_BYTE: usize = 12;

/// Additional memory for any frame, in bytes.
const FIXED: usize = 1024;

/// Runs a decoder on `len` bytes and checks its allocations.
pub(crate) fn bounded<T>(len: usize, decode: impl FnOnce() -> T) -> T {
    let mut decoded = None;
    let info = allocation_counter::measure(|| decoded = Some(decode()));
    let max = u64::try_from(len * PER_BYTE + FIXED).expect("a length fits");
    assert!(info.bytes_max <= max, "{len} bytes made a decoder allocate {}", info.bytes_max);
    decoded.expect("it ran")
}
