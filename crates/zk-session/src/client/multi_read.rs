//! Several reads in one request.

use proto::{
    ChildList, DataReply, ErrorCode, GetChildren, GetData, MultiReadOp, MultiReadReply,
    MultiReadResult,
};

use super::Client;
use super::multi::unfit;
use super::operations::{NodeData, check};
use super::pending::{Ask, Finish, Pending, decode_read};
use zk_session_core::Outcome;
use zk_session_core::{Failure, Reply};

/// Builder for a request of several reads; see [`Client::multi_read`].
///
/// Nothing is sent before [`send`](Self::send).
#[must_use = "nothing is sent before `send`"]
#[derive(Clone, Debug)]
pub struct MultiRead {
    client: Client,
    ops: Vec<MultiReadOp<'static>>,
    /// Error and path of the first invalid read.
    refused: Option<(Failure, String)>,
}

/// Result of one of several reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// A node's data and Stat.
    Data(NodeData),
    /// The names of a node's children, unsorted, without the node's Stat.
    Children(ChildList),
}

/// # Several reads at once
impl Client {
    /// Starts to build a request of several reads.
    ///
    /// The reads are not a transaction: the server answers them one by one, and a write may be
    /// applied in between.
    ///
    /// ```no_run
    /// # async fn example(client: zk_session::Client) -> Result<(), zk_session::Error> {
    /// let read = client.multi_read().get_data("/config").get_children("/workers").send().await?;
    /// for outcome in read {
    ///     println!("{outcome:?}"); // Ok(Data(..)), Ok(Children(..)), or the server's code
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn multi_read(&self) -> MultiRead {
        MultiRead { client: self.clone(), ops: Vec::new(), refused: None }
    }
}

impl MultiRead {
    /// Adds a read of a node's data.
    pub fn get_data(self, path: &str) -> Self {
        let op = GetData { path: self.client.full(path).into_owned().into(), watch: false };
        self.with(path, op.into())
    }

    /// Adds a read of the names of a node's children.
    pub fn get_children(self, path: &str) -> Self {
        let op = GetChildren { path: self.client.full(path).into_owned().into(), watch: false };
        self.with(path, op.into())
    }

    /// Sends the reads, and returns one outcome for each read, in their order.
    ///
    /// The outcome is the result of the read, or the code with which the server rejected it:
    /// `NoNode` or `NoAuth`.
    ///
    /// Servers support this request since 3.6.0. An older server rejects it with `Unimplemented`
    /// and closes the connection, but not the session.
    ///
    /// # Errors
    /// * [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) names the first invalid path;
    ///   nothing is sent.
    /// * `Unimplemented` if the server does not support the request.
    pub fn send(self) -> Pending<Vec<Result<ReadOutcome, ErrorCode>>> {
        let Self { client, ops, refused } = self;
        if let Some((failure, path)) = refused {
            let ask =
                Ask { path, ..client.ask("multiRead", "", |result, _| result.map(|_| Vec::new())) };
            return Pending::new(ask, Err(failure));
        }
        let what = match ops.len() {
            1 => "1 node".to_owned(),
            len => format!("{len} nodes"),
        };
        let request = proto::MultiRead::new(&ops);
        let asked: Vec<Asked> = ops.iter().map(Asked::of).collect();
        let finish = Finish::Asked(Box::new(move |result| finish(result, &asked)));
        let chroot_len = client.chroot.len();
        client.request(Ask { operation: "multiRead of", path: what, chroot_len, finish }, &request)
    }

    fn with(mut self, path: &str, op: MultiReadOp<'static>) -> Self {
        match check(path) {
            Ok(()) => self.ops.push(op),
            Err(failure) if self.refused.is_none() => {
                self.refused = Some((failure, path.to_owned()));
            }
            Err(_) => {}
        }
        self
    }
}

/// Kind of a read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Data,
    Children,
}

impl Asked {
    fn of(op: &MultiReadOp<'_>) -> Self {
        match op {
            MultiReadOp::GetData(_) => Self::Data,
            _ => Self::Children,
        }
    }
}

fn finish(
    result: Result<Reply, Failure>,
    asked: &[Asked],
) -> Result<Vec<Result<ReadOutcome, ErrorCode>>, Failure> {
    let MultiReadReply { results } = decode_read(result)?;
    if results.len() != asked.len() {
        return Err(unfit(Outcome::NotApplied)); // a read changes nothing
    }
    let outcomes = results.into_iter().zip(asked).map(|(result, asked)| {
        Ok(match (result, asked) {
            (MultiReadResult::Data(DataReply { data, stat }), Asked::Data) => {
                Ok(ReadOutcome::Data(NodeData::new(data, stat)))
            }
            (MultiReadResult::Children(names), Asked::Children) => Ok(ReadOutcome::Children(names)),
            (MultiReadResult::Error(code), _) if !code.is_ok() => Err(code),
            _ => return Err(unfit(Outcome::NotApplied)),
        })
    });
    outcomes.collect()
}
