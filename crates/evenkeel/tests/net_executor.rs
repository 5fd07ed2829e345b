//! The executor of a thread, with hyper on it, over a cable.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc;
use std::task::{Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use evenkeel::net::executor::{Executor, TcpListener, TcpStream};
use evenkeel::net::{self, Net};
use evenkeel::raw::time::Clock;
use evenkeel_testing::pause;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, server};
use rustix::time::{ClockId, clock_gettime};

const SERVER: &str = "10.0.0.2:80";

fn server_address() -> SocketAddr {
    SERVER.parse().unwrap()
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from(format!("you asked for {}", request.uri().path()))))
}

/// Serves on a thread of its own, until the future that it gets from `stop` is ready.
fn serve(net: &Net, wait_for_head: Duration) -> (mpsc::Sender<Waker>, JoinHandle<()>) {
    let (stop, stopped) = mpsc::channel();
    let listener = TcpListener::bind(net, SERVER).unwrap();
    let net = net.clone();
    let thread = thread::spawn(move || {
        let executor = Executor::new(&net).unwrap();
        let (tasks, timer) = (executor.clone(), executor.timer());
        executor.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let mut http = server::conn::http1::Builder::new();
                http.timer(timer.clone()).header_read_timeout(wait_for_head).half_close(true);
                let connection = http.serve_connection(stream, service_fn(answer));
                tasks.spawn(async { drop(connection.await) });
            }
        });
        executor.block_on(stopped_by(stopped));
    });
    (stop, thread)
}

/// Waits until the other end of a channel is dropped. Whoever has the other end wakes the task.
fn stopped_by(stopped: mpsc::Receiver<Waker>) -> impl Future<Output = ()> {
    poll_fn(move |_| match stopped.try_recv() {
        Err(mpsc::TryRecvError::Disconnected) => Poll::Ready(()),
        _ => Poll::Pending,
    })
}

#[test]
fn hyper_serves_http1_and_answers_a_request_that_comes_with_the_end_of_its_stream() {
    let (client, server) = Net::pair().unwrap();
    let _serving = serve(&server, Duration::from_secs(60));
    let mut kept = net::TcpStream::connect(&client, SERVER).unwrap();
    for number in 0..200 {
        kept.write_all(format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
        let mut room = [0; 512];
        let mut answered = Vec::new();
        let expected = format!("you asked for /{number}");
        while !answered.ends_with(expected.as_bytes()) {
            let bytes = kept.read(&mut room).unwrap();
            assert!(bytes > 0);
            answered.extend(&room[..bytes]);
        }
    }
    for _ in 0..1000 {
        let mut stream = net::TcpStream::connect(&client, SERVER).unwrap();
        stream.write_all(b"GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answered = String::new();
        stream.read_to_string(&mut answered).unwrap();
        assert!(answered.ends_with("you asked for /last"), "{answered:?}");
    }
    client.check().unwrap();
    server.check().unwrap();
}

#[test]
fn hyper_closes_a_connection_whose_request_does_not_come_in_time() {
    let (client, server) = Net::pair().unwrap();
    let _serving = serve(&server, Duration::from_millis(30));
    let mut slow = net::TcpStream::connect(&client, SERVER).unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nHo").unwrap();
    let mut answered = Vec::new();
    // The end, after an answer with the reason or none.
    slow.read_to_end(&mut answered).unwrap();
}

#[test]
fn hyper_speaks_http2_with_many_requests_on_one_connection() {
    let (client, server) = Net::pair().unwrap();
    let listener = TcpListener::bind(&server, SERVER).unwrap();
    let _serving = thread::spawn(move || {
        let executor = Executor::new(&server).unwrap();
        let tasks = executor.clone();
        executor.block_on(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let http = server::conn::http2::Builder::new(tasks);
            let _ = http.serve_connection(stream, service_fn(answer)).await;
        });
    });
    let executor = Executor::new(&client).unwrap();
    let tasks = executor.clone();
    let answered = executor.block_on(async move {
        let stream = TcpStream::connect(&client, server_address()).await.unwrap();
        let (requests, connection) =
            hyper::client::conn::http2::handshake(tasks.clone(), stream).await.unwrap();
        tasks.spawn(async { drop(connection.await) });
        let answered = Rc::new(RefCell::new(Vec::new()));
        for number in 0..100 {
            let (mut requests, answered) = (requests.clone(), Rc::clone(&answered));
            tasks.spawn(async move {
                let request = Request::get(format!("http://a/{number}")).body(Empty::<Bytes>::new()).unwrap();
                let body = requests.send_request(request).await.unwrap().into_body();
                let body = body.collect().await.unwrap().to_bytes();
                answered.borrow_mut().push(body);
            });
        }
        let timer = tasks.timer();
        while answered.borrow().len() < 100 {
            timer.sleep(Duration::from_millis(1)).await;
        }
        answered.take()
    });
    for number in 0..100 {
        assert!(answered.contains(&Bytes::from(format!("you asked for /{number}"))), "{number}");
    }
}

#[test]
fn ten_thousand_tasks_end_each_at_its_time() {
    let (net, _peer) = Net::pair().unwrap();
    let executor = Executor::new(&net).unwrap();
    let (ended, timer) = (Rc::new(RefCell::new(Vec::new())), executor.timer());
    for number in 0..10_000_u64 {
        // 7919 is prime: the times are mixed.
        let at = Duration::from_micros(number * 7919 % 10_000 * 5);
        let (sleep, ended) = (timer.sleep(at), Rc::clone(&ended));
        executor.spawn(async move {
            sleep.await;
            ended.borrow_mut().push(at);
        });
    }
    executor.block_on(async { timer.sleep(Duration::from_millis(60)).await });
    executor.block_on(poll_fn(|context| {
        context.waker().wake_by_ref();
        if ended.borrow().len() == 10_000 { Poll::Ready(()) } else { Poll::Pending }
    }));
}

/// The executor sleeps on the devices, or is parked while another thread does.
#[test]
fn another_thread_wakes_a_task() {
    for drives in [true, false] {
        let (net, peer) = Net::pair().unwrap();
        let receiving = net::UdpSocket::bind(&net, "0.0.0.0:9").unwrap();
        let other = thread::spawn(move || if drives { 0 } else { receiving.recv(&mut [0]).unwrap() });
        let (send, wakers) = mpsc::channel::<Waker>();
        let waking = thread::spawn(move || {
            for waker in wakers {
                pause(Duration::from_millis(2));
                waker.wake();
            }
        });
        let executor = Executor::new(&net).unwrap();
        let polls = Cell::new(0);
        executor.block_on(poll_fn(|context| {
            polls.set(polls.get() + 1);
            if polls.get() > 50 {
                return Poll::Ready(());
            }
            send.send(context.waker().clone()).unwrap();
            Poll::Pending
        }));
        drop(send);
        waking.join().unwrap();
        let sender = net::UdpSocket::bind(&peer, "0.0.0.0:0").unwrap();
        sender.send_to(b"x", "10.0.0.1:9").unwrap();
        assert_eq!(other.join().unwrap(), usize::from(!drives));
    }
}

#[test]
fn an_executor_whose_tasks_wait_uses_no_processor() {
    let used = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    let (net, _peer) = Net::pair().unwrap();
    let listener = TcpListener::bind(&net, "0.0.0.0:80").unwrap();
    let executor = Executor::new(&net).unwrap();
    executor.spawn(async move { drop(listener.accept().await) });
    let timer = executor.timer();
    let (clock, before) = (Clock::start(), used());
    executor.block_on(timer.sleep(Duration::from_millis(300)));
    let (used, passed) = (used() - before, clock.now().as_secs_f64());
    assert!(used.as_secs_f64() < passed / 10.0, "{used:?} of {passed} s");
}

#[test]
fn streams_of_an_executor_that_is_dropped_are_closed() {
    let (client, server) = Net::pair().unwrap();
    let listener = TcpListener::bind(&server, SERVER).unwrap();
    let mut near = net::TcpStream::connect(&client, SERVER).unwrap();
    let executor = Executor::new(&server).unwrap();
    let far = executor.block_on(listener.accept()).unwrap().0;
    executor.spawn(async move {
        let _ = far.read(&mut [0]).await;
    });
    executor.block_on(executor.timer().sleep(Duration::from_millis(1)));
    drop(executor);
    assert_eq!(near.read(&mut [0]).unwrap(), 0);
}

#[test]
#[should_panic(expected = "cannot run the executor")]
fn a_task_cannot_run_its_executor() {
    let (net, _peer) = Net::pair().unwrap();
    let executor = Executor::new(&net).unwrap();
    let inner = executor.clone();
    executor.block_on(async move { inner.block_on(async {}) });
}

#[test]
fn tasks_run_after_one_has_panicked() {
    let (net, _peer) = Net::pair().unwrap();
    let executor = Executor::new(&net).unwrap();
    let timer = executor.timer();
    executor.spawn(async { panic!("on purpose") });
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        executor.block_on(timer.sleep(Duration::from_secs(60)));
    }));
    assert!(panicked.is_err());
    executor.block_on(timer.sleep(Duration::from_millis(1)));
}
