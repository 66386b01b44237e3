//! Names of operations in other clients. The warning of the compiler tells the name here.

use proto::{CreateMode, Stat};
use zk_session_core::Error;

use super::{Client, Created, NodeData, ParentMode, Pending};

impl Client {
    #[doc(hidden)]
    #[deprecated(note = "the method is `get_data`")]
    pub fn get(&self, path: &str) -> Pending<NodeData> {
        self.get_data(path)
    }

    #[doc(hidden)]
    #[deprecated(note = "the method is `set_data`")]
    pub fn set(&self, path: &str, data: impl AsRef<[u8]>, version: Option<i32>) -> Pending<Stat> {
        self.set_data(path, data, version)
    }

    #[doc(hidden)]
    #[deprecated(note = "use `create_builder(path).data(data).mode(mode).parents(…).create()`")]
    pub async fn create_recursive(
        &self,
        path: &str,
        data: impl AsRef<[u8]>,
        mode: CreateMode,
    ) -> Result<Created, Error> {
        let node = self.create_builder(path).data(data).mode(mode);
        node.parents(ParentMode::Persistent).create().await
    }

    #[doc(hidden)]
    #[deprecated(note = "the method is `exists`")]
    pub fn check_exists(&self, path: &str) -> Pending<Option<Stat>> {
        self.exists(path)
    }
}
