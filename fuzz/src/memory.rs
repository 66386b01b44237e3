//! How much a decoder may allocate.

/// Bytes of memory at one time for each byte of a frame.
///
/// The worst case is a list of results of a multi: nine bytes on the wire can stand for one, which
/// takes 104 in memory, as there is room for a path and a Stat.
const PER_BYTE: usize = 12;

/// Bytes of memory whatever the frame.
const FIXED: usize = 1024;

/// Runs a decoder on `len` bytes and checks what it allocates.
pub(crate) fn bounded<T>(len: usize, decode: impl FnOnce() -> T) -> T {
    let mut decoded = None;
    let info = allocation_counter::measure(|| decoded = Some(decode()));
    let max = u64::try_from(len * PER_BYTE + FIXED).expect("a length fits");
    assert!(info.bytes_max <= max, "{len} bytes made a decoder allocate {}", info.bytes_max);
    decoded.expect("it ran")
}
