//! Resumes the session of another process, changes one of its nodes, and detaches from it.
//!
//! The credentials arrive on standard input, in one line: their secret text. It gives access to the
//! session with all its locks. Keep it out of the arguments, which every process can read, and out of
//! logs.
//!
//! ```text
//! cargo run -p zk-session --example take_over -- 127.0.0.1:2181 /job done < credentials
//! ```
//!
//! The process that owns the session detaches with `Client::detach`, and writes the credentials that
//! it returns with `to_secret_text`.

use std::error::Error;

use zk_session::{Config, SessionCredentials};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [connect_string, path, data] = &arguments[..] else {
        println!("usage: take_over CONNECT-STRING PATH DATA < CREDENTIALS");
        return Ok(());
    };
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let credentials: SessionCredentials = line.parse()?;

    let client = Config::new(connect_string)?.resume(credentials).connect().await?;
    println!("session {} goes on", client.session_id());
    let before = client.get_data(path).await?;
    client.set_data(path, data.as_bytes(), Some(before.stat.version)).await?;
    let before = before.data;
    println!("{path}: {} -> {data}", String::from_utf8_lossy(&before));
    // Closing the session would delete the node.
    client.detach();
    Ok(())
}
