//! Datagrams to several hosts: broadcasts and groups.

use std::io;
use std::io::ErrorKind::{AddrInUse, AddrNotAvailable, InvalidInput, PermissionDenied};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::cases;
use crate::face::{Side, Sockets, Udp};
use crate::world::{World, fails, settle};

cases![
    member_receives,
    member_receives_after_it_left_and_joined_again,
    member_of_two_groups_receives_from_both,
    member_still_receives_its_own_datagrams,
    sender_needs_not_be_a_member,
    former_member_does_not_receive,
    second_join_is_refused,
    leaving_without_joining_is_refused,
    second_leave_is_refused,
    address_that_is_no_group_is_invalid,
    membership_is_shared_by_clones,
    membership_ends_with_the_socket;
    broadcast_needs_permission,
    broadcast_with_permission_arrives,
    broadcast_is_refused_after_permission_is_withdrawn,
    broadcast_needs_permission_to_all_of_a_link,
    connecting_to_a_broadcast_address_needs_permission,
    interface_may_be_unspecified;
];

/// Returns the interface of the server, as IPv4 names it.
fn interface<S: Sockets>(world: &World<S>) -> Ipv4Addr {
    match world.server().ip() {
        IpAddr::V4(address) => address,
        IpAddr::V6(_) => unreachable!("an address of IPv4"),
    }
}

fn join<S: Sockets>(world: &World<S>, socket: &S::Udp, group: IpAddr) -> io::Result<()> {
    match group {
        IpAddr::V4(group) => socket.join_multicast_v4(&group, &interface(world)),
        IpAddr::V6(group) => socket.join_multicast_v6(&group, world.sockets.interface(Side::Server)),
    }
}

fn leave<S: Sockets>(world: &World<S>, socket: &S::Udp, group: IpAddr) -> io::Result<()> {
    match group {
        IpAddr::V4(group) => socket.leave_multicast_v4(&group, &interface(world)),
        IpAddr::V6(group) => socket.leave_multicast_v6(&group, world.sockets.interface(Side::Server)),
    }
}

/// Returns a group of this case alone. All cases on the kernel's sockets are on one host.
fn group<S: Sockets>(world: &World<S>, name: u8) -> IpAddr {
    match world.group() {
        IpAddr::V4(group) => Ipv4Addr::from_bits(group.to_bits() + u32::from(name)).into(),
        IpAddr::V6(group) => Ipv6Addr::from_bits(group.to_bits() + u128::from(name)).into(),
    }
}

/// Returns a sender on the client's host and a receiver of all addresses of the server's.
fn ends<S: Sockets>(world: &World<S>) -> (S::Udp, S::Udp) {
    let receiver = world.sockets.bind(Side::Server, world.unspecified()).unwrap();
    (world.udp(Side::Client), receiver)
}

fn member_receives<S: Sockets>(world: &World<S>) {
    let (sender, receiver) = ends(world);
    let group = group(world, 1);
    join(world, &receiver, group).unwrap();
    sender.put(b"to all", SocketAddr::new(group, receiver.addr().port()));
    assert_eq!(receiver.get(), (b"to all".to_vec(), sender.addr()));
}

fn member_receives_after_it_left_and_joined_again<S: Sockets>(world: &World<S>) {
    let (sender, receiver) = ends(world);
    let group = group(world, 2);
    join(world, &receiver, group).unwrap();
    leave(world, &receiver, group).unwrap();
    join(world, &receiver, group).unwrap();
    sender.put(b"again", SocketAddr::new(group, receiver.addr().port()));
    assert_eq!(receiver.get().0, b"again");
}

fn member_of_two_groups_receives_from_both<S: Sockets>(world: &World<S>) {
    let (sender, receiver) = ends(world);
    for group in [group(world, 3), group(world, 4)] {
        join(world, &receiver, group).unwrap();
    }
    for group in [group(world, 4), group(world, 3)] {
        sender.put(b"x", SocketAddr::new(group, receiver.addr().port()));
        assert_eq!(receiver.get().0, b"x");
    }
}

fn member_still_receives_its_own_datagrams<S: Sockets>(world: &World<S>) {
    let (sender, receiver) = ends(world);
    join(world, &receiver, group(world, 5)).unwrap();
    sender.put(b"to one", SocketAddr::new(world.server().ip(), receiver.addr().port()));
    assert_eq!(receiver.get().0, b"to one");
}

fn sender_needs_not_be_a_member<S: Sockets>(world: &World<S>) {
    let (sender, _receiver) = ends(world);
    sender.put(b"to nobody", SocketAddr::new(group(world, 6), 9));
}

fn former_member_does_not_receive<S: Sockets>(world: &World<S>) {
    let (sender, receiver) = ends(world);
    let group = group(world, 7);
    let port = receiver.addr().port();
    join(world, &receiver, group).unwrap();
    leave(world, &receiver, group).unwrap();
    sender.put(b"to all", SocketAddr::new(group, port));
    settle();
    sender.put(b"to one", SocketAddr::new(world.server().ip(), port));
    assert_eq!(receiver.get().0, b"to one");
}

fn second_join_is_refused<S: Sockets>(world: &World<S>) {
    let (sender, receiver) = ends(world);
    let group = group(world, 8);
    join(world, &receiver, group).unwrap();
    fails(join(world, &receiver, group), AddrInUse);
    sender.put(b"x", SocketAddr::new(group, receiver.addr().port()));
    assert_eq!(receiver.get().0, b"x");
}

fn leaving_without_joining_is_refused<S: Sockets>(world: &World<S>) {
    let (_sender, receiver) = ends(world);
    fails(leave(world, &receiver, group(world, 9)), AddrNotAvailable);
}

fn second_leave_is_refused<S: Sockets>(world: &World<S>) {
    let (_sender, receiver) = ends(world);
    let group = group(world, 10);
    join(world, &receiver, group).unwrap();
    leave(world, &receiver, group).unwrap();
    fails(leave(world, &receiver, group), AddrNotAvailable);
}

fn address_that_is_no_group_is_invalid<S: Sockets>(world: &World<S>) {
    let (_sender, receiver) = ends(world);
    fails(join(world, &receiver, world.client().ip()), InvalidInput);
}

fn membership_is_shared_by_clones<S: Sockets>(world: &World<S>) {
    let (sender, receiver) = ends(world);
    let group = group(world, 11);
    join(world, &receiver.try_clone().unwrap(), group).unwrap();
    sender.put(b"x", SocketAddr::new(group, receiver.addr().port()));
    assert_eq!(receiver.get().0, b"x");
    leave(world, &receiver, group).unwrap();
}

fn membership_ends_with_the_socket<S: Sockets>(world: &World<S>) {
    let (sender, receiver) = ends(world);
    let group = group(world, 12);
    join(world, &receiver, group).unwrap();
    let at = receiver.addr();
    drop(receiver);
    let again = world.sockets.bind(Side::Server, at).unwrap();
    sender.put(b"to all", SocketAddr::new(group, at.port()));
    settle();
    sender.put(b"to one", SocketAddr::new(world.server().ip(), at.port()));
    assert_eq!(again.get().0, b"to one");
}

/// Returns the broadcast address at the receiver's port.
fn all<S: Sockets>(world: &World<S>, receiver: &S::Udp) -> SocketAddr {
    (world.sockets.broadcast(), receiver.addr().port()).into()
}

fn broadcast_needs_permission<S: Sockets>(world: &World<S>) {
    let (sender, receiver) = ends(world);
    fails(sender.send_to(b"x", all(world, &receiver)), PermissionDenied);
}

fn broadcast_with_permission_arrives<S: Sockets>(world: &World<S>) {
    let (sender, receiver) = ends(world);
    sender.set_broadcast(true).unwrap();
    sender.put(b"to all", all(world, &receiver));
    assert_eq!(receiver.get(), (b"to all".to_vec(), sender.addr()));
}

fn broadcast_is_refused_after_permission_is_withdrawn<S: Sockets>(world: &World<S>) {
    let (sender, receiver) = ends(world);
    sender.set_broadcast(true).unwrap();
    sender.set_broadcast(false).unwrap();
    fails(sender.send_to(b"x", all(world, &receiver)), PermissionDenied);
    sender.put(b"to one", SocketAddr::new(world.server().ip(), receiver.addr().port()));
    assert_eq!(receiver.get().0, b"to one");
}

fn broadcast_needs_permission_to_all_of_a_link<S: Sockets>(world: &World<S>) {
    let (sender, receiver) = ends(world);
    let all = (Ipv4Addr::BROADCAST, receiver.addr().port()).into();
    fails(sender.send_to(b"x", all), PermissionDenied);
    sender.set_broadcast(true).unwrap();
    sender.put(b"to all", all);
    assert_eq!(receiver.get().0, b"to all");
}

fn connecting_to_a_broadcast_address_needs_permission<S: Sockets>(world: &World<S>) {
    let (sender, receiver) = ends(world);
    fails(sender.connect(all(world, &receiver)), PermissionDenied);
    sender.set_broadcast(true).unwrap();
    sender.connect(all(world, &receiver)).unwrap();
    sender.send(b"to all").unwrap();
    assert_eq!(receiver.get().0, b"to all");
}

fn interface_may_be_unspecified<S: Sockets>(world: &World<S>) {
    let (sender, receiver) = ends(world);
    let IpAddr::V4(group) = group(world, 13) else { unreachable!("an address of IPv4") };
    receiver.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED).unwrap();
    sender.put(b"x", (group, receiver.addr().port()).into());
    assert_eq!(receiver.get().0, b"x");
}
