//! Requests of every kind, valid and invalid, on few nodes, so that they interfere with each other.

use std::iter;

use proto::OpCode;
use zk_testing::{Rng, Version};

use super::message::Message;
use super::{ROOT, arguments};

/// Generator of the requests of one script.
pub(crate) struct Operations {
    random: Rng,
    version: Version,
}

type Make = fn(&mut Operations) -> Vec<Message>;

/// Weight of each kind of request.
const KINDS: [(usize, Make); 20] = [
    (24, |operations| vec![operations.create()]),
    (9, |operations| vec![operations.delete()]),
    (9, |operations| vec![operations.set_data()]),
    (4, |operations| vec![operations.set_acl()]),
    (14, |operations| vec![operations.read()]),
    (5, |operations| vec![operations.add_watch()]),
    (4, |operations| vec![operations.watches(OpCode::RemoveWatches)]),
    (3, |operations| vec![operations.watches(OpCode::CheckWatches)]),
    (3, |operations| vec![operations.set_watches()]),
    (9, |operations| vec![operations.multi()]),
    (3, |operations| vec![operations.multi_read()]),
    (4, |operations| vec![operations.auth()]),
    (1, |_| vec![named(OpCode::WhoAmI)]),
    (2, |operations| vec![operations.of_path(OpCode::Sync)]),
    (2, |_| vec![named(OpCode::Ping)]),
    (1, |_| vec![reconfig()]),
    (1, |operations| vec![operations.rare()]),
    (2, |operations| operations.quota()),
    (2, |operations| vec![operations.truncated()]),
    (1, |_| vec![named(OpCode::CloseSession)]),
];

impl Operations {
    pub(crate) fn new(random: Rng, version: Version) -> Self {
        Self { random, version }
    }

    /// Returns requests that create some of the nodes of the script.
    pub(crate) fn groundwork(&mut self) -> Vec<Message> {
        let paths = arguments::groundwork();
        let create = |path: &String| {
            let message = named(OpCode::Create).string(path);
            message.string("x").open_acl().int(0)
        };
        paths.iter().filter(|_| self.random.chance(0.7)).map(create).collect()
    }

    /// Returns the next request, or a few related requests.
    pub(crate) fn next(&mut self) -> Vec<Message> {
        let kinds = KINDS.iter().flat_map(|&(weight, make)| iter::repeat_n(make, weight));
        let make: Make = self.random.pick(&kinds.collect::<Vec<_>>());
        let mut messages = make(self);
        if self.random.chance(0.01) {
            // Two more bytes behind the last request.
            messages = messages.into_iter().map(|message| message.byte(7).byte(7)).collect();
        }
        messages
    }

    fn create(&mut self) -> Message {
        let random = &mut self.random;
        let op = random.pick(&[
            OpCode::Create,
            OpCode::Create,
            OpCode::Create2,
            OpCode::Create2,
            OpCode::CreateContainer,
            OpCode::CreateTtl,
        ]);
        let flags = match op {
            _ if random.chance(0.04) => random.pick(&[-1, 4, 5, 6, 7, 9, i32::MAX]),
            OpCode::CreateContainer => random.pick(&[4, 4, 4, 0, 1, 2, 3]),
            OpCode::CreateTtl => random.pick(&[5, 5, 6, 0, 1, 2]),
            _ => random.pick(&[0, 0, 0, 1, 1, 2, 3]),
        };
        let is_sequential = matches!(flags, 2 | 3 | 6);
        let path = if is_sequential && random.chance(0.9) {
            Some(arguments::prefix(random))
        } else {
            // Below the root of the tree, the number would depend on earlier scripts.
            arguments::path(random).filter(|path| !is_sequential || path != ROOT.as_bytes())
        };
        let message = named(op).buffer(path.as_deref());
        let message = message.buffer(arguments::data(random).as_deref());
        let message = arguments::acl(random, message).int(flags);
        if op != OpCode::CreateTtl {
            return message;
        }
        let ttl = random.pick(&[1, 5_000, 60_000, 0, -2, 0xff_ffff_ffff, 0x100_0000_0000]);
        // A negative time with the flags of another mode would end the server.
        let ttl = if matches!(flags, 5 | 6) { ttl } else { ttl.max(0) };
        message.long(ttl)
    }

    fn delete(&mut self) -> Message {
        self.of_path(OpCode::Delete).int(arguments::version(&mut self.random))
    }

    fn set_data(&mut self) -> Message {
        let message = self.of_path(OpCode::SetData);
        let data = arguments::data(&mut self.random);
        let message = message.buffer(data.as_deref());
        message.int(arguments::version(&mut self.random))
    }

    fn set_acl(&mut self) -> Message {
        let message = self.of_path(OpCode::SetAcl);
        let message = arguments::acl(&mut self.random, message);
        message.int(arguments::version(&mut self.random))
    }

    fn check(&mut self) -> Message {
        self.of_path(OpCode::Check).int(arguments::version(&mut self.random))
    }

    fn read(&mut self) -> Message {
        let op = self.random.pick(&[
            OpCode::Exists,
            OpCode::Exists,
            OpCode::GetData,
            OpCode::GetData,
            OpCode::GetChildren,
            OpCode::GetChildren2,
            OpCode::GetChildren2,
            OpCode::GetAcl,
            OpCode::GetEphemerals,
            OpCode::GetAllChildrenNumber,
        ]);
        let path = arguments::readable(&mut self.random);
        let message = named(op).buffer(path.as_deref());
        match op {
            OpCode::GetAcl | OpCode::GetEphemerals | OpCode::GetAllChildrenNumber => message,
            _ => message.byte(self.random.pick(&[0, 1, 1, 7])),
        }
    }

    fn add_watch(&mut self) -> Message {
        // After an addWatch with a null path, the server never closes the connection.
        let path = arguments::readable(&mut self.random).or(Some(Vec::new()));
        let mode = self.random.pick(&[0, 0, 0, 0, 1, 1, 1, 1, 1, 2, -1]);
        named(OpCode::AddWatch).buffer(path.as_deref()).int(mode)
    }

    fn watches(&mut self, op: OpCode) -> Message {
        let path = arguments::readable(&mut self.random);
        let kind = self.random.pick(&[1, 1, 2, 2, 3, 3, 4, 5, 9, 0]);
        named(op).buffer(path.as_deref()).int(kind)
    }

    fn set_watches(&mut self) -> Message {
        let op = self.random.pick(&[OpCode::SetWatches, OpCode::SetWatches2]);
        let lists = if op == OpCode::SetWatches { 3 } else { 5 };
        let mut message = named(op).zxid(self.random.below(60));
        for _ in 0..lists {
            if self.random.chance(0.01) {
                message = message.int(-1);
                continue;
            }
            let count = self.random.below(3);
            let paths: Vec<Vec<u8>> = (0..count)
                .map(|_| arguments::readable(&mut self.random).unwrap_or_default())
                .collect();
            message = message.strings(&paths);
        }
        message
    }

    fn multi(&mut self) -> Message {
        let mut message = named(OpCode::Multi);
        for _ in 0..self.random.below(6) {
            let part = match self.random.below(100) {
                0..=44 => self.create(),
                45..=59 => self.delete(),
                60..=79 => self.set_data(),
                80..=97 => self.check(),
                98 => self.set_acl(),
                _ => self.read(),
            };
            message = message.part(&part);
        }
        if self.random.chance(0.98) { message.end() } else { message }
    }

    fn multi_read(&mut self) -> Message {
        let mut message = named(OpCode::MultiRead);
        for _ in 0..self.random.below(5) {
            let op = match self.random.below(40) {
                0 => OpCode::Exists,
                1 => OpCode::GetChildren2,
                2..=20 => OpCode::GetChildren,
                _ => OpCode::GetData,
            };
            let path = arguments::readable(&mut self.random);
            message = message.part(&named(op).buffer(path.as_deref()).byte(1));
        }
        if self.random.chance(0.98) { message.end() } else { message }
    }

    fn auth(&mut self) -> Message {
        arguments::auth(&mut self.random, named(OpCode::Auth).int(0))
    }

    fn rare(&mut self) -> Message {
        match self.random.below(4) {
            0 => named(OpCode::Sasl).buffer(Some(b"x")),
            1 if self.version == Version::V3_9 => self.check(),
            _ => Message::unknown(self.random.pick(&[0, 10, 23, 99, 108, 1000, -1, -2])),
        }
    }

    fn quota(&mut self) -> Vec<Message> {
        let limits = self.random.pick(&[
            "count=3,bytes=40",
            "count=-1,bytes=-1=;byteHardLimit=30;countHardLimit=5",
            "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=3",
        ]);
        let root = arguments::quota_root();
        let nodes = [
            (root.clone(), ""),
            (format!("{root}/zookeeper_limits"), limits),
            (format!("{root}/zookeeper_stats"), "count=0,bytes=0"),
        ];
        let create = |(path, data): &(String, &str)| {
            named(OpCode::Create).string(path).string(data).open_acl().int(0)
        };
        nodes.iter().map(create).collect()
    }

    fn truncated(&mut self) -> Message {
        let message = match self.random.below(9) {
            0 => self.create(),
            1 => self.delete(),
            2 => self.set_data(),
            3 => self.set_acl(),
            4 => self.read(),
            5 => self.add_watch(),
            6 => self.set_watches(),
            7 => self.multi(),
            _ => self.watches(OpCode::RemoveWatches),
        };
        message.cut(|len| 1 + self.random.index(len))
    }

    fn of_path(&mut self, op: OpCode) -> Message {
        named(op).buffer(arguments::path(&mut self.random).as_deref())
    }
}

fn named(op: OpCode) -> Message {
    Message::new(op)
}

fn reconfig() -> Message {
    let message = named(OpCode::Reconfig).buffer(None).string("3");
    message.buffer(None).long(-1)
}
