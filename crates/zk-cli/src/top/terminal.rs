//! The terminal: its size, single keys, and a screen that leaves no trace.

use std::io::{Read, Write, stdin, stdout};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use crate::prelude::{Failure, Result};
use nix::sys::termios::{self, LocalFlags, SetArg, SpecialCharacterIndices, Termios};
use tokio::sync::mpsc;

/// A key of the keyboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Backspace,
    Char(char),
}

/// The settings of the terminal before `zk top`, while it uses the terminal.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Restores the terminal, if `zk top` uses it: for a panic, after which nothing else does.
pub(crate) fn restore_terminal() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before {
        write(LEAVE);
        // Nothing can be done about a terminal that is gone.
        let _ = termios::tcsetattr(stdin().as_fd(), SetArg::TCSANOW, &before);
    }
}

/// The terminal while `zk top` uses it. Dropping it restores what was there.
pub(super) struct Terminal {
    pressed: mpsc::UnboundedReceiver<Key>,
}

impl Terminal {
    pub(super) fn open() -> Result<Self> {
        let failed = |error| Failure::other(format!("the terminal cannot be set: {error}"));
        let before = termios::tcgetattr(stdin().as_fd()).map_err(failed)?;
        let mut raw = before.clone();
        // SIGINT and SIGQUIT still come from the keyboard. Ctrl-Z would leave the shell this screen.
        raw.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO);
        raw.control_chars[SpecialCharacterIndices::VSUSP as usize] = NO_CHARACTER;
        termios::tcsetattr(stdin().as_fd(), SetArg::TCSANOW, &raw).map_err(failed)?;
        let (found, pressed) = mpsc::unbounded_channel();
        // The thread ends with the process: a read of the terminal cannot be cancelled.
        std::thread::spawn(move || {
            let mut bytes = [0; 16];
            while let Ok(len @ 1..) = stdin().read(&mut bytes) {
                if keys(&bytes[..len]).any(|key| found.send(key).is_err()) {
                    return;
                }
            }
        });
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        let terminal = Self { pressed };
        write(ENTER);
        Ok(terminal)
    }

    /// Waits for the next key; for ever once the input has ended.
    pub(super) async fn key(&mut self) -> Key {
        match self.pressed.recv().await {
            Some(key) => key,
            None => std::future::pending().await,
        }
    }

    /// Returns the columns and lines.
    pub(super) fn size() -> (usize, usize) {
        let size = terminal_size::terminal_size();
        size.map_or((80, 24), |(width, height)| (width.0.into(), height.0.into()))
    }

    pub(super) fn show(lines: &[String]) {
        let body = lines.join(&format!("{CLEAR_LINE}\r\n"));
        write(&format!("{HOME}{body}{CLEAR_REST}"));
    }

    pub(super) fn print_note(text: &str) {
        let (width, height) = Self::size();
        let text: String = text.chars().take(width).collect();
        write(&format!("\u{1b}[{height};1H{text}{CLEAR_LINE}"));
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore_terminal();
    }
}

/// Returns the known keys in an input. Several that were pressed quickly arrive at once.
fn keys(mut bytes: &[u8]) -> impl Iterator<Item = Key> {
    let next = move || {
        let len = match bytes {
            [] => return None,
            [0x1b, b'O', _, ..] => 3,
            // Parameters, and a letter or a tilde at the end.
            [0x1b, b'[', rest @ ..] => {
                let end = rest.iter().position(|byte| (0x40..=0x7e).contains(byte));
                end.map_or(bytes.len(), |end| end + 3)
            }
            _ => bytes.utf8_chunks().next()?.valid().chars().next().map_or(1, char::len_utf8),
        };
        let (first, rest) = bytes.split_at(len);
        bytes = rest;
        Some(key(first))
    };
    std::iter::from_fn(next).flatten()
}

fn key(bytes: &[u8]) -> Option<Key> {
    match bytes {
        b"\x1b[A" | b"\x1bOA" => Some(Key::Up),
        b"\x1b[B" | b"\x1bOB" => Some(Key::Down),
        b"\x1b[C" | b"\x1bOC" => Some(Key::Right),
        b"\x1b[D" | b"\x1bOD" => Some(Key::Left),
        b"\x1b[5~" => Some(Key::PageUp),
        b"\x1b[6~" => Some(Key::PageDown),
        b"\x1b[H" | b"\x1bOH" | b"\x1b[1~" | b"\x1b[7~" => Some(Key::Home),
        b"\x1b[F" | b"\x1bOF" | b"\x1b[4~" | b"\x1b[8~" => Some(Key::End),
        b"\n" | b"\r" => Some(Key::Enter),
        b"\x1b" => Some(Key::Escape),
        b"\x7f" | b"\x08" => Some(Key::Backspace),
        _ => {
            let char = std::str::from_utf8(bytes).ok()?.chars().next()?;
            (!char.is_control()).then_some(Key::Char(char))
        }
    }
}

fn write(text: &str) {
    // A terminal that is gone sends SIGHUP.
    let _ = stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush());
}

/// `_POSIX_VDISABLE`: no key sends the signal.
const NO_CHARACTER: u8 = 0;
/// Another screen, without a cursor, on which long lines are cut: some characters take two columns.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[?7l";
const LEAVE: &str = "\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l";
const HOME: &str = "\u{1b}[H";
const CLEAR_LINE: &str = "\u{1b}[K";
const CLEAR_REST: &str = "\u{1b}[K\u{1b}[J";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_in_both_modes_of_a_terminal() {
        let read = |bytes| keys(bytes).collect::<Vec<_>>();
        assert_eq!(read(b"\x1b[A\x1bOB"), [Key::Up, Key::Down]);
        assert_eq!(read(b"\x1b"), [Key::Escape]);
        assert_eq!(read(b"\x1b[5~\x1b[6~"), [Key::PageUp, Key::PageDown]);
        assert_eq!(read(b"\x1b[1~\x1bOF"), [Key::Home, Key::End]);
        assert_eq!(
            read(b"x\x1b[Z\x1b[1;5Aq\x7f"),
            [Key::Char('x'), Key::Char('q'), Key::Backspace]
        );
        assert_eq!(read("ä\u{1}€".as_bytes()), [Key::Char('ä'), Key::Char('€')]);
        assert_eq!(read(b"\xc3q"), [Key::Char('q')]);
        assert_eq!(read(b""), []);
    }
}
