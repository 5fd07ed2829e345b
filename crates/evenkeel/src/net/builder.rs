//! Settings of a host that is to be opened, and its links.

use std::io;

use evenkeel_core::cable::{self, Options};
use evenkeel_core::host::{Config, Host};
use evenkeel_core::receive::Architecture;
use evenkeel_core::stack::InterfaceId;
use evenkeel_core::wire::{IpAddress, IpCidr};
use evenkeel_link::{Address, Clock, DeviceSpec, LinkSpec, OpenOptions, open_queues, open_with};

use super::handle::Net;
use crate::engine::Engine;
use crate::error::Error;
use crate::group;
use crate::kernel::{FollowError, sharing};

/// The settings of a host that is to be opened. An error in one of them is reported by [`Builder::open`].
///
/// ```no_run
/// use evenkeel::net::{Net, UdpSocket};
///
/// let net = Net::builder()
///     .link("packet:eth0")
///     .address("192.0.2.7/24")
///     .gateway("192.0.2.1")
///     .open()?;
/// let socket = UdpSocket::bind(&net, "0.0.0.0:53")?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Builder {
    link: String,
    addresses: Vec<String>,
    gateways: Vec<String>,
    routes: Vec<(String, String)>,
    kernel_addresses: Vec<String>,
    mac: Address,
    config: Config,
}

/// Neighbour updates that a host of several keeps until it passes them on to the others.
const NEIGHBOR_UPDATES: usize = 256;

/// The addresses of the two ends of a cable, and of a TAP device and the kernel's end of it.
const CABLE_ADDRESSES: [[&str; 2]; 2] = [["10.0.0.1/24", "fd00::1/64"], ["10.0.0.2/24", "fd00::2/64"]];
const TAP_ADDRESSES: [&str; 2] = ["10.77.0.2/24", "10.77.0.1/24"];

impl Net {
    /// Opens a host on a link: `tap:NAME`, `packet:NAME`, `xdp:NAME` or `cable`, as
    /// [`Builder::link`] describes.
    ///
    /// # Errors
    /// [`Builder::open`]
    pub fn open(link: &str) -> io::Result<Self> {
        Self::builder().link(link).open()
    }

    /// Returns the settings of a host that is to be opened.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Puts sockets on a host that was set up as an engine: with several links, with programs of its own, or
    /// at one end of a cable.
    ///
    /// # Errors
    /// If the process may open no more descriptors or threads. If the engine
    /// [ends on signals](Engine::stop_on): a signal does not end the calls on sockets.
    pub fn from_engine(engine: Engine) -> io::Result<Self> {
        if engine.driver.stop.is_some() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the engine ends on signals"));
        }
        Ok(Self::new(engine.driver, None)?)
    }

    /// Opens two hosts that a cable in memory joins. They have the addresses 10.0.0.1 and fd00::1, and
    /// 10.0.0.2 and fd00::2.
    ///
    /// # Errors
    /// If the process may open no more descriptors or threads.
    pub fn pair() -> io::Result<(Self, Self)> {
        Ok(Builder::default().open_pair()?)
    }
}

impl Builder {
    /// Sets the link of the host:
    ///
    /// * `tap:NAME`: a TAP device, at whose other end is the kernel. Needs root.
    /// * `packet:NAME`: an existing network interface. Needs root, and an [address](Builder::address).
    /// * `xdp:NAME`: the same, through AF_XDP. A socket gets a receive ring of its own. A frame that finds
    ///   it full is dropped before the host sees it. With `,share` the kernel keeps its addresses and all
    ///   traffic but that of this host's sockets, which have the same addresses.
    /// * `cable`: a cable in memory. At its other end is another host, [`Net::peer`].
    ///
    /// `,queues=N` after a name gives a device several receive rings.
    #[must_use]
    pub fn link(mut self, link: &str) -> Self {
        link.clone_into(&mut self.link);
        self
    }

    /// Adds an address of the host with the length of its prefix, such as `10.77.0.2/24` or `fd00::2/64`.
    /// Without any, the host at a TAP device has 10.77.0.2/24, and the kernel's end 10.77.0.1/24.
    #[must_use]
    pub fn address(mut self, address: &str) -> Self {
        self.addresses.push(address.to_owned());
        self
    }

    /// Adds a router for all destinations that are not on the link.
    #[must_use]
    pub fn gateway(mut self, gateway: &str) -> Self {
        self.gateways.push(gateway.to_owned());
        self
    }

    /// Adds a route: the destination with the length of its prefix, and the router that leads there.
    #[must_use]
    pub fn route(mut self, destination: &str, gateway: &str) -> Self {
        self.routes.push((destination.to_owned(), gateway.to_owned()));
        self
    }

    /// Adds an address of the kernel's end of a TAP device.
    #[must_use]
    pub fn kernel_address(mut self, address: &str) -> Self {
        self.kernel_addresses.push(address.to_owned());
        self
    }

    /// Sets the hardware address of the host. Without it, the host has one of its own, not the device's.
    #[must_use]
    pub const fn mac(mut self, address: Address) -> Self {
        self.mac = address;
        self
    }

    /// Sets the receive architecture. The default, `soft-lrp`, leaves protocol work to the receiving thread.
    #[must_use]
    pub const fn architecture(mut self, architecture: Architecture) -> Self {
        self.config.architecture = architecture;
        self
    }

    /// Sets all limits and policies of the host, and its architecture.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Opens the host.
    ///
    /// # Errors
    /// If a setting is not valid, the device cannot be opened, or the process has reached a limit. Nothing
    /// is left behind.
    pub fn open(self) -> io::Result<Net> {
        Ok(self.open_as_ours()?)
    }

    /// Opens several hosts that share a link, `packet:NAME` or `xdp:NAME`, and appear as one to the network.
    /// Each has its share of the flows and of the memory that a host takes, and its sockets are used without
    /// a lock that another host takes. A thread for each, bound to a core of its own, makes best use of them.
    ///
    /// * A service listens or binds on each host. A connection or datagram comes to one of them.
    /// * A program connects on any. Hosts choose different local ports.
    /// * A packet that comes to a host without a socket for it goes on to the next host. This takes a message
    ///   between threads for each packet, and packets beyond 50 000 in a second are lost.
    ///
    /// ```no_run
    /// use std::io::Write as _;
    ///
    /// use evenkeel::net::{Net, TcpListener};
    ///
    /// let hosts = Net::builder().link("xdp:eth0").address("192.0.2.7/24").open_each(2)?;
    /// let serve = |net: Net| -> std::io::Result<()> {
    ///     let listener = TcpListener::bind(&net, "0.0.0.0:80")?;
    ///     loop {
    ///         let (mut stream, _) = listener.accept()?;
    ///         stream.write_all(b"hello\n")?;
    ///     }
    /// };
    /// std::thread::scope(|scope| hosts.into_iter().for_each(|net| _ = scope.spawn(move || serve(net))));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Builder::open`]. Also if the link is of another kind, shares the kernel's addresses, or has
    /// fewer queues than there are hosts.
    pub fn open_each(self, hosts: usize) -> io::Result<Vec<Net>> {
        Ok(self.open_each_as_ours(hosts)?)
    }

    fn open_each_as_ours(self, hosts: usize) -> Result<Vec<Net>, Error> {
        let spec = match self.link.parse()? {
            LinkSpec::Device(spec) if spec.spreads_over_hosts() => spec,
            LinkSpec::Device(_) | LinkSpec::Cable { .. } => return Err(Error::OneHost(self.link)),
        };
        let clock = Clock::start();
        let engine = |index| {
            let mut config = self.config.clone();
            // One host announces the addresses for all hosts.
            config.stack.announce &= index == 0;
            config.stack.neighbor_updates = config.stack.neighbor_updates.max(NEIGHBOR_UPDATES);
            Ok::<_, Error>(Engine::new(Host::new(config)?, clock)?)
        };
        let mut engines = (0..hosts.max(1)).map(engine).collect::<Result<Vec<_>, _>>()?;
        group::join(&mut engines)?;
        let devices = open_queues(&spec, &self.open_options()?, engines.len(), clock)?;
        let addresses = parsed(&self.addresses)?;
        let open = |(mut engine, device): (Engine, _)| {
            let interface = engine.add_device(device, &addresses)?;
            self.finish(engine, interface, None)
        };
        engines.into_iter().zip(devices).map(open).collect()
    }

    fn open_options(&self) -> Result<OpenOptions, Error> {
        let kernel_addresses = parsed(&self.kernel_addresses)?;
        Ok(OpenOptions { address: self.mac, kernel_addresses, ..OpenOptions::default() })
    }

    fn open_as_ours(mut self) -> Result<Net, Error> {
        match self.link.parse()? {
            LinkSpec::Cable { .. } => {
                let (net, _) = self.open_pair()?;
                Ok(net)
            }
            LinkSpec::Device(spec) => {
                if matches!(spec, DeviceSpec::Tap(_)) && self.addresses.is_empty() {
                    self = self.address(TAP_ADDRESSES[0]).kernel_address(TAP_ADDRESSES[1]);
                }
                if spec.is_shared() {
                    self.config = self.shared_config()?;
                }
                let clock = Clock::start();
                let mut engine = Engine::new(Host::new(self.config.clone())?, clock)?;
                let device = open_with(&spec, &self.open_options()?, clock)?;
                let interface = engine.add_device(device, &parsed(&self.addresses)?)?;
                if let Some(device) = spec.interface().filter(|_| spec.is_shared()) {
                    engine.share(device)?;
                }
                self.finish(engine, interface, None)
            }
        }
    }

    /// Returns the settings of a host that shares the kernel's addresses. Under the default architecture the
    /// host, too, leaves demultiplexing to the interface.
    fn shared_config(&self) -> Result<Config, Error> {
        let given = [&self.addresses, &self.gateways, &self.kernel_addresses];
        if given.iter().any(|texts| !texts.is_empty()) || !self.routes.is_empty() || self.mac != Address::Own
        {
            return Err(FollowError::OwnAddresses.into());
        }
        let mut config = self.config.clone();
        if config.architecture == Architecture::SoftLrp {
            config.architecture = Architecture::NiLrp;
        }
        Ok(sharing(config)?)
    }

    /// Opens two hosts with a cable between them.
    pub(super) fn open_pair(&self) -> Result<(Net, Net), Error> {
        let (a, b) = cable::pair(Options::new("a", 1), Options::new("b", 2));
        let [addresses_a, addresses_b] = CABLE_ADDRESSES;
        let open = |end, addresses: [&str; 2], peer| {
            let mut engine = Engine::new(Host::new(self.config.clone())?, Clock::start())?;
            let interface = engine.add_cable(end, &parsed(&addresses.map(str::to_owned))?)?;
            self.finish(engine, interface, peer)
        };
        let b = open(b, addresses_b, None)?;
        let a = open(a, addresses_a, Some(b.clone()))?;
        Ok((a, b))
    }

    /// Adds routes to a host with one interface.
    fn finish(&self, mut engine: Engine, interface: InterfaceId, peer: Option<Net>) -> Result<Net, Error> {
        for gateway in &self.gateways {
            engine.add_gateway(address(gateway)?, interface)?;
        }
        for (destination, gateway) in &self.routes {
            engine.add_route(cidr(destination)?, address(gateway)?, interface)?;
        }
        Net::new(engine.driver, peer)
    }
}

fn parsed(addresses: &[String]) -> Result<Vec<IpCidr>, Error> {
    addresses.iter().map(|address| cidr(address)).collect()
}

fn cidr(text: &str) -> Result<IpCidr, Error> {
    text.parse().map_err(|()| Error::Address(text.to_owned()))
}

fn address(text: &str) -> Result<IpAddress, Error> {
    text.parse().map_err(|()| Error::Address(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use evenkeel_core::host::System;
    use evenkeel_core::process::{Program, Step};
    use evenkeel_core::system;
    use evenkeel_link::Stop;

    use super::*;
    use crate::net::UdpSocket;
    use crate::test_host;

    /// A program that answers each datagram to port 7 with its own payload.
    #[derive(Debug, Default)]
    struct Echo(Option<system::UdpSocket>);

    impl Program for Echo {
        fn step(&mut self, system: &mut System<'_>) -> Step {
            let socket = *self.0.get_or_insert_with(|| system::UdpSocket::bind(system, None, 7).unwrap());
            let Ok(request) = socket.receive(system) else { return Step::Wait(socket.fd()) };
            socket.reply(system, &request, request.as_slice().unwrap()).unwrap();
            Step::Again
        }
    }

    /// Waits until the program of a host has bound its socket: before, datagrams to it are dropped.
    fn wait_for_echo(net: &Net) {
        while net.snapshot().sockets.iter().all(|socket| socket.port != 7) {
            std::thread::yield_now();
        }
    }

    /// Sends to `to`, and returns whether the same bytes come back.
    fn is_echoed(socket: &UdpSocket, to: &str) -> bool {
        let to: SocketAddr = to.parse().unwrap();
        socket.send_to(b"here", to).unwrap();
        let mut buffer = [0; 8];
        socket.recv_from(&mut buffer).is_ok_and(|(len, from)| (&buffer[..len], from) == (&b"here"[..], to))
    }

    #[test]
    fn sockets_share_the_host_of_an_engine_with_its_links_and_programs() {
        let [mut middle, mut left, mut right] = [(); 3].map(|()| test_host::engine());
        for (engine, name, number) in [(&mut left, "left", 1), (&mut right, "right", 2)] {
            let (end, other) = cable::pair(Options::new(name, number), Options::new(name, number + 10));
            let address = |host| IpCidr::new(IpAddress::v4(10, 0, number, host), 24);
            middle.add_cable(other, &[address(1)]).unwrap();
            engine.add_cable(end, &[address(2)]).unwrap();
            engine.host_mut().spawn("echo", 0, Box::<Echo>::default());
        }
        middle.host_mut().spawn("echo", 0, Box::<Echo>::default());
        let nets = [middle, left, right].map(|engine| Net::from_engine(engine).unwrap());
        nets.iter().for_each(wait_for_echo);
        let [middle, left, _right] = nets;
        let [from_middle, from_left] = [&middle, &left].map(|net| {
            let socket = UdpSocket::bind(net, "0.0.0.0:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            socket
        });
        assert!(is_echoed(&from_middle, "10.0.1.2:7") && is_echoed(&from_middle, "10.0.2.2:7"));
        assert!(is_echoed(&from_left, "10.0.1.1:7"));
        middle.check().unwrap();
    }

    #[test]
    fn an_engine_that_ends_on_signals_gets_no_sockets() {
        let mut engine = test_host::engine();
        engine.stop_on(Stop::on_signals().unwrap());
        assert_eq!(Net::from_engine(engine).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    fn opened(gateway: &str, destination: &str) -> Result<Net, Error> {
        Net::builder().link("cable").gateway(gateway).route(destination, gateway).open_as_ours()
    }

    #[test]
    fn routers_are_on_the_link_of_an_address() {
        for (gateway, destination) in
            [("10.0.0.9", "198.51.100.0/24"), ("fd00::9", "2001:db8::/32"), ("fe80::9", "2001:db8::/32")]
        {
            assert!(opened(gateway, destination).is_ok(), "{gateway}");
        }
        for (gateway, destination) in [("192.0.2.1", "198.51.100.0/24"), ("2001:db8::1", "2001:db8:1::/48")] {
            let error = opened(gateway, destination).unwrap_err();
            assert!(matches!(error, Error::Gateway(_)), "{error}");
            assert_eq!(io::Error::from(error).kind(), io::ErrorKind::NetworkUnreachable);
        }
        let own = opened("10.0.0.1", "198.51.100.0/24").unwrap_err();
        assert!(matches!(own, Error::Route(_)), "{own}");
    }
}
