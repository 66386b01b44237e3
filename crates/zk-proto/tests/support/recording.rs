//! Parser of the recordings under `tests/golden`.
//!
//! A line that begins with `=` is the title of an exchange. A line with `>` or `<` begins a frame to or from
//! the server, and a line with white space continues it. All other lines are comments.

use std::{fs, path::Path};

use bytes::{Bytes, BytesMut};

/// Requests and their replies.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) title: String,
    pub(crate) frames: Vec<Frame>,
}

/// One frame.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) to_server: bool,
    /// The whole frame, with the length prefix.
    pub(crate) wire: BytesMut,
}

impl Frame {
    /// Returns the bytes after the length prefix.
    pub(crate) fn payload(&self) -> Bytes {
        Bytes::copy_from_slice(&self.wire[4..])
    }
}

/// Reads a file.
pub(crate) fn read(path: &Path) -> Vec<Exchange> {
    match fs::read_to_string(path) {
        Ok(text) => parse(&text),
        Err(error) => panic!("reading {}: {error}", path.display()),
    }
}

fn parse(text: &str) -> Vec<Exchange> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    for line in text.lines() {
        let mark = line.chars().next();
        if mark == Some('=') {
            let title = line[1..].trim().to_owned();
            exchanges.push(Exchange { title, frames: Vec::new() });
        }
        let Some(Exchange { frames, .. }) = exchanges.last_mut() else {
            continue;
        };
        if let Some('>' | '<') = mark {
            frames.push(Frame { to_server: mark == Some('>'), wire: BytesMut::new() });
        }
        if let (Some('>' | '<' | ' '), Some(frame)) = (mark, frames.last_mut()) {
            frame.wire.extend(hex(&line[1..]));
        }
    }
    exchanges
}

/// Converts pairs of hex digits into bytes. White space and text after `//` are ignored.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let digits: Vec<u32> = code.flat_map(str::chars).filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).unwrap_or(0)).collect()
}
