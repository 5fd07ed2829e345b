//! tonic's client asks tonic's service for its health: over the kernel, and from a host on a cable.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel::net::Net;
use evenkeel::net::tokio::TcpStream;
use hyper_util::rt::TokioIo;
use tokio::runtime::Builder;
use tonic::Code;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::{beside, grpc_health};

const CHECKS: usize = 200;

/// Opens connections of tonic's client from a host of ours.
struct Connector(Net);

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let net = self.0.clone();
        Box::pin(async move {
            let address = uri.authority().unwrap().as_str();
            TcpStream::connect(&net, address).await.map(TokioIo::new)
        })
    }
}

fn asked_about(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

/// Makes many calls at a time on one connection, and reads the beginning of an answer that does not end.
async fn check(channel: Channel) {
    let mut health = HealthClient::new(channel);
    let missing = health.check(asked_about("none")).await.unwrap_err();
    assert_eq!(missing.code(), Code::NotFound);
    let checks: Vec<_> = (0..CHECKS)
        .map(|_| {
            let mut health = health.clone();
            tokio::spawn(async move { health.check(asked_about("")).await.unwrap().into_inner() })
        })
        .collect();
    for check in checks {
        assert_eq!(check.await.unwrap().status(), ServingStatus::Serving);
    }
    let mut watched = health.watch(asked_about("")).await.unwrap().into_inner();
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
}

#[test]
fn tonic_answers_its_client_over_the_kernel() {
    beside(
        async |net| grpc_health::serve(&net).await,
        || {
            Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
                let server = Endpoint::from_static("http://10.77.0.2:50051");
                // It may not listen yet.
                let channel = loop {
                    match server.connect().await {
                        Ok(channel) => break channel,
                        Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                    }
                };
                check(channel).await;
            });
        },
    );
}

#[test]
fn tonic_answers_its_client_over_a_cable() {
    let (client, server) = Net::pair().unwrap();
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(async {
        let serving = server.clone();
        tokio::spawn(async move { grpc_health::serve(&serving).await.unwrap() });
        let channel = Endpoint::from_static("http://10.0.0.2:50051")
            .connect_with_connector_lazy(Connector(client.clone()));
        check(channel).await;
    });
    client.check().unwrap();
    server.check().unwrap();
}
