//! The shop: one number in stock, and a book of what its buyers did.
//!
//! It is the resource that the lock protects, and it checks the fencing token. It does not use the
//! lock itself.

use std::time::Duration;

use crate::now_ns;

/// Czxid and pass of a `FencingToken`, in the order of comparison. Both are 0 without a lock.
///
/// The pass grows while the lock passes from buyer to buyer of one process.
pub(crate) type Token = (i64, u32);

/// The time in which one buyer held the lock: from the return of `acquire` to the call of `release`.
#[derive(Clone, Copy)]
pub(crate) struct Holding {
    pub(crate) token: Token,
    pub(crate) granted_ns: u64,
    pub(crate) release_called_ns: u64,
}

#[derive(Default)]
pub(crate) struct Shop {
    pub(crate) stock: u32,
    /// The largest token that the shop has seen.
    pub(crate) largest: Token,
    pub(crate) sold: u32,
    /// Buyers that were told "sold out".
    pub(crate) sold_out: u32,
    pub(crate) holdings: Vec<Holding>,
    pub(crate) opened_ns: u64,
    pub(crate) last_sale_ns: u64,
    pub(crate) last_visit_ns: u64,
}

impl Shop {
    /// Reads the stock. A holder of the lock passes its token here too, not only with the write.
    /// Otherwise an overtaken holder could still write between this read and the write that is
    /// based on it.
    pub(crate) fn read(&mut self, token: Token) -> Result<u32, String> {
        self.admit(token)?;
        if self.stock == 0 {
            self.sold_out += 1;
        }
        Ok(self.stock)
    }

    /// Records a purchase and the remaining stock, as the buyer has computed it.
    pub(crate) fn sell(&mut self, token: Token, left: u32) -> Result<u32, String> {
        self.admit(token)?;
        self.stock = left;
        self.sold += 1;
        self.last_sale_ns = now_ns();
        Ok(left)
    }

    /// Returns the seconds from the opening to a time.
    pub(crate) fn seconds_until(&self, ns: u64) -> f64 {
        Duration::from_nanos(ns.saturating_sub(self.opened_ns)).as_secs_f64()
    }

    /// Checks the fencing token: the shop stores each token, and rejects every smaller one from then
    /// on. This check makes the lock safe.
    ///
    /// Any amount of time may pass between a holder's check of its lock and the arrival of its
    /// request here. A paused virtual machine, a swapped-out process or a slow network can cause
    /// this. Another holder may have acquired the lock in between. The holder cannot detect this;
    /// only the resource can.
    ///
    /// A database checks the token in one transaction with the data that it protects.
    fn admit(&mut self, token: Token) -> Result<(), String> {
        if token < self.largest {
            return Err(format!("refused: the shop has seen {:?}", self.largest));
        }
        self.largest = token;
        self.last_visit_ns = now_ns();
        Ok(())
    }
}
