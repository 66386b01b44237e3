//! Reader of frames that arrive in pieces.

/// Reader of one direction of a connection. It keeps the first bytes of each frame.
#[derive(Debug)]
pub(crate) struct Frames {
    /// Bytes of a frame that are kept, its length included.
    kept_max: usize,
    head: Vec<u8>,
    /// Bytes of the current frame read so far, its length included.
    read: usize,
}

impl Frames {
    pub(crate) fn new(kept_max: usize) -> Self {
        Self { kept_max, head: Vec::new(), read: 0 }
    }

    /// Returns the head of the next complete frame, and takes its bytes.
    pub(crate) fn next(&mut self, bytes: &mut &[u8]) -> Option<Vec<u8>> {
        while !bytes.is_empty() {
            let len = self.head.get(..4).and_then(|len| len.try_into().ok());
            let end =
                len.map_or(4, |len| 4 + usize::try_from(u32::from_be_bytes(len)).unwrap_or(0));
            let piece = bytes.len().min(end - self.read);
            let kept = piece.min(self.kept_max.saturating_sub(self.read));
            self.head.extend_from_slice(&bytes[..kept]);
            self.read += piece;
            *bytes = &bytes[piece..];
            if len.is_some() && self.read == end {
                self.read = 0;
                return Some(std::mem::take(&mut self.head));
            }
        }
        None
    }
}
