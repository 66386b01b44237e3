//! Bytes that are overwritten when they are dropped.

use std::fmt;
use std::ops::Deref;

/// Secret bytes. They are never printed, and overwritten with zeros when they are dropped.
#[derive(Clone, Default)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Takes the bytes over.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub(super) fn push(&mut self, byte: u8) {
        self.extend(&[byte]);
    }

    /// Appends bytes. Growing moves the secret, so the old memory is overwritten first.
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        if self.0.capacity() - self.0.len() < bytes.len() {
            let mut grown = Vec::with_capacity((self.0.len() + bytes.len()) * 2);
            grown.extend_from_slice(&self.0);
            *self = Self(grown);
        }
        self.0.extend_from_slice(bytes);
    }
}

impl Deref for Secret {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.fill(0);
        std::hint::black_box(&self.0); // so that the zeros are written
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_secret_moves_to_memory_of_twice_the_length() {
        let mut secret = Secret::new(b"abc".to_vec());
        secret.extend(b"0123456789");
        assert_eq!((&*secret, secret.0.capacity()), (&b"abc0123456789"[..], 26));
        secret.extend(&[b'x'; 13]);
        assert_eq!((secret.len(), secret.0.capacity()), (26, 26));
        secret.push(b'y');
        assert_eq!((secret.len(), secret.0.capacity()), (27, 54));
    }
}
