//! Builder of a request: its bytes, encoded by hand, and its text for reports.

/// The body of a request, after the xid.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) op: i32,
    /// Description of the request for reports.
    pub(crate) text: String,
    bytes: Vec<u8>,
    /// Offset of a zxid that is relative to the zxid at the start of the script.
    zxid_at: Option<usize>,
}

impl Message {
    pub(crate) fn new(op: i32, name: &str) -> Self {
        let bytes = op.to_be_bytes().to_vec();
        Self { op, text: name.to_owned(), bytes, zxid_at: None }
    }

    pub(crate) fn byte(mut self, name: &str, value: u8) -> Self {
        self.bytes.push(value);
        self.note(name, &value.to_string())
    }

    pub(crate) fn int(mut self, name: &str, value: i32) -> Self {
        self.bytes.extend_from_slice(&value.to_be_bytes());
        self.note(name, &value.to_string())
    }

    pub(crate) fn long(mut self, name: &str, value: i64) -> Self {
        self.bytes.extend_from_slice(&value.to_be_bytes());
        self.note(name, &value.to_string())
    }

    /// Appends a zxid, as an offset from the start of the script.
    pub(crate) fn zxid(mut self, name: &str, offset: i64) -> Self {
        self.zxid_at = Some(self.bytes.len());
        self.bytes.extend_from_slice(&offset.to_be_bytes());
        self.note(name, &format!("+{offset}"))
    }

    /// Appends a buffer or a string; `None` is null.
    pub(crate) fn buffer(mut self, name: &str, value: Option<&[u8]>) -> Self {
        let Some(value) = value else { return self.int(name, -1) };
        let len = i32::try_from(value.len()).unwrap_or(i32::MAX);
        self.bytes.extend_from_slice(&len.to_be_bytes());
        self.bytes.extend_from_slice(value);
        let shown = if value.len() > 200 {
            format!("{} bytes", value.len())
        } else {
            format!("\"{}\"", value.escape_ascii())
        };
        self.note(name, &shown)
    }

    pub(crate) fn string(self, name: &str, value: &str) -> Self {
        self.buffer(name, Some(value.as_bytes()))
    }

    pub(crate) fn strings(mut self, name: &str, values: &[Vec<u8>]) -> Self {
        self = self.int(name, i32::try_from(values.len()).unwrap_or(i32::MAX));
        for value in values {
            self = self.buffer("", Some(value));
        }
        self
    }

    /// Appends an operation of a multi, with its header.
    pub(crate) fn part(mut self, part: &Self) -> Self {
        self.bytes.extend_from_slice(&part.op.to_be_bytes());
        self.bytes.push(0);
        self.bytes.extend_from_slice(&(-1_i32).to_be_bytes());
        self.bytes.extend_from_slice(&part.bytes[4..]);
        self.text.push_str(" [");
        self.text.push_str(&part.text);
        self.text.push(']');
        self
    }

    /// Appends the end of a multi.
    pub(crate) fn end(mut self) -> Self {
        self.bytes.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff]);
        self
    }

    /// Returns whether the request creates the limits of a quota.
    pub(crate) fn makes_quota(&self) -> bool {
        self.text.contains("/zookeeper_limits")
    }

    /// Returns the number of bytes after the operation code.
    pub(crate) fn body_len(&self) -> usize {
        self.bytes.len() - 4
    }

    /// Removes the last bytes.
    pub(crate) fn cut(mut self, bytes: usize) -> Self {
        let len = self.bytes.len() - bytes.min(self.body_len());
        self.bytes.truncate(len);
        if self.zxid_at.is_some_and(|at| at + 8 > len) {
            self.zxid_at = None;
        }
        self.note("", &format!("(without its last {bytes} bytes)"))
    }

    /// Returns the whole frame.
    pub(crate) fn frame(&self, xid: i32, base_zxid: i64) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        if let Some(at) = self.zxid_at
            && let Some(slot) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<8>())
        {
            *slot = i64::from_be_bytes(*slot).wrapping_add(base_zxid).to_be_bytes();
        }
        framed(&[&xid.to_be_bytes(), &bytes[..]].concat())
    }

    fn note(mut self, name: &str, value: &str) -> Self {
        self.text.push(' ');
        if !name.is_empty() {
            self.text.push_str(name);
            self.text.push('=');
        }
        self.text.push_str(value);
        self
    }
}

/// Prefixes a body with its length.
pub(crate) fn framed(body: &[u8]) -> Vec<u8> {
    let len = i32::try_from(body.len()).unwrap_or(i32::MAX);
    [&len.to_be_bytes(), body].concat()
}
