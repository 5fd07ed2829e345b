//! The executor of a thread, with hyper on it, over a cable.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
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
use support::{Sockets, assert_nothing_is_left, close_all, drop_calls, frugal_pair};

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

/// A task is ready in the moment in which a call of `block_on` ends, by its result or by a panic.
#[test]
fn tasks_that_are_ready_at_the_end_of_a_run_go_on_in_the_next() {
    for panics in [false, true] {
        let (net, _peer) = Net::pair().unwrap();
        let executor = Executor::new(&net).unwrap();
        let has_run = Rc::new(Cell::new(false));
        let mut is_first = true;
        let run = poll_fn(|context| {
            if !std::mem::replace(&mut is_first, false) {
                assert!(!panics, "on purpose");
                return Poll::Ready(());
            }
            // Behind this one.
            context.waker().wake_by_ref();
            let has_run = Rc::clone(&has_run);
            executor.spawn(async move { has_run.set(true) });
            Poll::Pending
        });
        let ended = catch_unwind(AssertUnwindSafe(|| executor.block_on(run)));
        assert_eq!((ended.is_err(), has_run.get()), (panics, false));
        executor.block_on(executor.timer().sleep(Duration::from_millis(1)));
        assert!(has_run.get());
    }
}

#[test]
fn tasks_run_after_one_has_panicked() {
    let (net, _peer) = Net::pair().unwrap();
    let executor = Executor::new(&net).unwrap();
    let timer = executor.timer();
    executor.spawn(async { panic!("on purpose") });
    let run = AssertUnwindSafe(|| executor.block_on(timer.sleep(Duration::from_secs(60))));
    assert!(catch_unwind(run).is_err());
    executor.block_on(timer.sleep(Duration::from_millis(1)));
    assert_eq!(format!("{executor:?}"), "Executor { tasks: 0, .. }");
}

/// The sockets of executors.
struct Ours;

impl Sockets for Ours {
    type Listener = TcpListener;
    type Stream = TcpStream;

    async fn listen(net: &Net) -> io::Result<TcpListener> {
        TcpListener::bind(net, SERVER)
    }

    async fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
        Ok(listener.accept().await?.0)
    }

    async fn connect(net: &Net) -> io::Result<TcpStream> {
        TcpStream::connect(net, server_address()).await
    }

    async fn read(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        TcpStream::read(stream, buffer).await
    }

    async fn write(stream: &mut TcpStream, data: &[u8]) -> io::Result<usize> {
        TcpStream::write(stream, data).await
    }
}

#[test]
fn calls_that_are_dropped_at_random_leave_nothing_behind() {
    for seed in 1..=3 {
        let (client, server) = frugal_pair();
        let executor = Executor::new(&server).unwrap();
        executor.block_on(drop_calls::<Ours>(&client, &server, seed)).unwrap();
        drop(executor);
        assert_nothing_is_left(&client);
        assert_nothing_is_left(&server);
    }
}

/// The peers of the connections see their end, or a reset.
#[test]
fn the_next_executor_serves_at_the_port_of_one_that_was_dropped_with_open_connections() {
    let (client, server) = frugal_pair();
    for _ in 0..20 {
        let executor = Executor::new(&server).unwrap();
        let listener = TcpListener::bind(&server, SERVER).unwrap();
        let mut asking: Vec<_> = (0..10).map(|_| net::TcpStream::connect(&client, SERVER).unwrap()).collect();
        executor.block_on(async {
            for near in &mut asking {
                let far = listener.accept().await.unwrap().0;
                near.write_all(b"x").unwrap();
                assert_eq!(far.read(&mut [0]).await.unwrap(), 1);
                executor.spawn(async move { drop(far.read(&mut [0]).await) });
            }
        });
        drop((executor, listener));
        for near in &mut asking {
            match near.read(&mut [0]) {
                Ok(0) => {}
                other => assert_eq!(other.unwrap_err().kind(), io::ErrorKind::ConnectionReset),
            }
        }
    }
    assert_nothing_is_left(&client);
    assert_nothing_is_left(&server);
}

#[test]
fn a_descriptor_that_is_closed_ends_the_calls_of_tasks() {
    let (client, server) = Net::pair().unwrap();
    let listener = TcpListener::bind(&server, SERVER).unwrap();
    let near = net::TcpStream::connect(&client, SERVER).unwrap();
    let executor = Executor::new(&server).unwrap();
    let far = executor.block_on(listener.accept()).unwrap().0;
    let ended = Rc::new(Cell::new(0));
    let (reads, accepts) = (Rc::clone(&ended), Rc::clone(&ended));
    executor.spawn(async move {
        far.read(&mut [0]).await.unwrap_err();
        reads.set(reads.get() + 1);
    });
    executor.spawn(async move {
        listener.accept().await.map(drop).unwrap_err();
        accepts.set(accepts.get() + 1);
    });
    let closing = thread::spawn(move || {
        pause(Duration::from_millis(20));
        close_all(&server);
    });
    executor.block_on(until(&executor, || ended.get() == 2));
    closing.join().unwrap();
    drop(near);
    assert_nothing_is_left(&client);
}

/// Waits until something is so.
async fn until(executor: &Executor, is: impl Fn() -> bool) {
    let timer = executor.timer();
    while !is() {
        timer.sleep(Duration::from_millis(1)).await;
    }
}

const TASKS: u32 = 10_000;

/// Accepts ten thousand connections, and only then echoes on them: a task for each.
fn echo_to_all(server: &Net, listener: TcpListener) {
    let executor = Executor::new(server).unwrap();
    let ended = Rc::new(Cell::new(0));
    executor.block_on(async {
        let mut streams = Vec::new();
        for _ in 0..TASKS {
            streams.push(listener.accept().await.unwrap().0);
        }
        for stream in streams {
            let ended = Rc::clone(&ended);
            executor.spawn(async move {
                let mut data = [0; 4];
                while stream.read(&mut data).await.unwrap() > 0 {
                    assert_eq!(stream.write(&data).await.unwrap(), 4);
                }
                ended.set(ended.get() + 1);
            });
        }
        until(&executor, || ended.get() == TASKS).await;
    });
}

#[test]
fn each_of_ten_thousand_tasks_has_a_connection() {
    let (client, server) = Net::pair().unwrap();
    let listener = TcpListener::bind(&server, SERVER).unwrap();
    let serving = server.clone();
    let serving = thread::spawn(move || echo_to_all(&serving, listener));
    let executor = Executor::new(&client).unwrap();
    let answered = Rc::new(RefCell::new(Vec::new()));
    executor.block_on(async {
        for n in 0..TASKS {
            let stream = TcpStream::connect(&client, server_address()).await.unwrap();
            let answered = Rc::clone(&answered);
            executor.spawn(async move {
                assert_eq!(stream.write(&n.to_ne_bytes()).await.unwrap(), 4);
                let mut data = [0; 4];
                assert_eq!(stream.read(&mut data).await.unwrap(), 4);
                assert_eq!(data, n.to_ne_bytes());
                answered.borrow_mut().push(stream);
            });
        }
        until(&executor, || answered.borrow().len() == TASKS as usize).await;
    });
    drop((answered, executor));
    serving.join().unwrap();
    assert_nothing_is_left(&client);
    assert_nothing_is_left(&server);
}
