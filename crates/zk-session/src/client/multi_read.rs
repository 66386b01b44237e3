//! Several reads in one request.

use proto::{
    ChildList, DataReply, ErrorCode, GetChildren, GetData, MultiReadOp, MultiReadReply,
    MultiReadResult, OpCode,
};
use zk_session_core::{Failure, Outcome, Reply};

use super::Client;
use super::multi::unfit;
use super::operation_list::OperationList;
use super::operations::NodeData;
use super::pending::{Finish, Pending, decode_read};

/// Builder for a request of several reads; see [`Client::multi_read`].
///
/// Nothing is sent before [`send`](Self::send).
#[must_use = "nothing is sent before `send`"]
#[derive(Clone, Debug)]
pub struct MultiRead(OperationList<MultiReadOp<'static>>);

/// Result of one of several reads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    /// The server counts them as one request, against its limits of requests and of bytes in
    /// flight. That suits a program that reads many nodes, for example to fill a cache:
    ///
    /// ```no_run
    /// # async fn example(client: zk_session::Client) -> Result<(), zk_session::Error> {
    /// use zk_session::ReadOutcome;
    ///
    /// let workers = client.get_children("/workers").await?;
    /// let mut reads = client.multi_read();
    /// for name in workers.names.names() {
    ///     reads = reads.get_data(&format!("/workers/{name}"));
    /// }
    /// for outcome in reads.send().await? {
    ///     match outcome {
    ///         Ok(ReadOutcome::Data(node)) => println!("{:?}", node.data),
    ///         Ok(_) => unreachable!("only data was read"),
    ///         Err(code) => println!("cannot read a worker: {code}"),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The reads are not a transaction: the server answers them one by one, and a write may be
    /// applied in between.
    pub fn multi_read(&self) -> MultiRead {
        MultiRead(OperationList::new(self))
    }
}

impl MultiRead {
    /// Adds a read of a node's data.
    pub fn get_data(self, path: &str) -> Self {
        let full = self.0.client.checked(path);
        Self(self.0.with(path, full, |path| GetData { path, watch: false }.into()))
    }

    /// Adds a read of the names of a node's children.
    pub fn get_children(self, path: &str) -> Self {
        let full = self.0.client.checked(path);
        Self(self.0.with(path, full, |path| GetChildren { path, watch: false }.into()))
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
        let asked: Vec<OpCode> = self.0.ops.iter().map(op_of).collect();
        let finish = Finish::Asked(Box::new(move |result| finish(result, &asked)));
        self.0.send(OpCode::MultiRead, "node", finish, proto::MultiRead::new)
    }
}

fn op_of(read: &MultiReadOp<'_>) -> OpCode {
    match read {
        MultiReadOp::GetData(_) => OpCode::GetData,
        _ => OpCode::GetChildren,
    }
}

fn finish(
    result: Result<Reply, Failure>,
    asked: &[OpCode],
) -> Result<Vec<Result<ReadOutcome, ErrorCode>>, Failure> {
    let MultiReadReply { results } = decode_read(result)?;
    if results.len() != asked.len() {
        return Err(unfit(Outcome::NotApplied)); // a read changes nothing
    }
    let outcomes = results.into_iter().zip(asked).map(|(result, asked)| {
        Ok(match (result, asked) {
            (MultiReadResult::Data(DataReply { data, stat }), OpCode::GetData) => {
                Ok(ReadOutcome::Data(NodeData::new(data, stat)))
            }
            (MultiReadResult::Children(names), OpCode::GetChildren) => {
                Ok(ReadOutcome::Children(names))
            }
            (MultiReadResult::Error(code), _) if !code.is_ok() => Err(code),
            _ => return Err(unfit(Outcome::NotApplied)),
        })
    });
    outcomes.collect()
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use proto::{Encode, Zxid};

    use super::*;

    #[test]
    fn error_result_without_an_error_code_is_unfit() {
        let finished = |code| {
            let mut body = BytesMut::new();
            MultiReadReply { results: vec![MultiReadResult::Error(code)] }.encode(&mut body);
            finish(Ok(Reply { zxid: Zxid(1), body: body.freeze() }), &[OpCode::GetData])
        };
        assert_eq!(finished(ErrorCode::NO_NODE), Ok(vec![Err(ErrorCode::NO_NODE)]));
        assert_eq!(finished(ErrorCode::OK), Err(unfit(Outcome::NotApplied)));
    }
}
