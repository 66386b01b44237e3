//! One host name of several servers.

use std::net::SocketAddr;

use super::*;

/// A name with two addresses. The server of the first one closes every connection.
#[derive(Clone)]
struct TwoServers {
    ensemble: Ensemble,
    asked: Arc<Mutex<Vec<Vec<SocketAddr>>>>,
}

fn address(n: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, n], 2181))
}

impl Connector for TwoServers {
    type Stream = Recorded;

    fn resolve(
        &self,
        host: &Host,
    ) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static {
        assert!(host.addresses().is_empty());
        std::future::ready(match host.name() {
            "unknown" => Err(io::ErrorKind::NotFound.into()),
            _ => Ok(vec![address(1), address(2)]),
        })
    }

    fn connect(&self, host: &Host) -> impl Future<Output = io::Result<Recorded>> + Send + 'static {
        self.asked.lock().unwrap().push(host.addresses().to_vec());
        let address = host.addresses()[0].ip();
        let opened = self.ensemble.connect(host);
        async move {
            let mut stream = opened.await?;
            if address == self::address(1).ip() {
                stream.stream = tokio::io::duplex(1024).0;
            }
            Ok(Recorded { peer: Some(address), ..stream })
        }
    }

    fn peer_address(&self, stream: &Recorded) -> Option<IpAddr> {
        stream.peer
    }
}

#[tokio::test(start_paused = true)]
async fn session_leaves_the_address_whose_server_closes_connections() {
    for seed in 0..8 {
        let asked = Arc::default();
        let connector = TwoServers { ensemble: Ensemble::new(), asked: Arc::clone(&asked) };
        let config = Config::new("unknown,zk").unwrap().seed(seed).connector(connector);
        config.connect().await.unwrap();
        let asked = asked.lock().unwrap().clone();
        assert!(asked.len() <= 2, "{asked:?}");
        assert_eq!(asked.last().unwrap()[0], address(2));
        assert_eq!(asked[0].len(), 2);
    }
}
