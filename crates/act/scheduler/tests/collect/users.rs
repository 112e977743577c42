//! Tests that one user cannot take all nodes: processes of another user are still seen.

use std::fs;

use crate::world::{Child, World, child, get, nap, pipe, put};

/// Two users without a name; GREEDY tries to take all nodes.
const GREEDY: u32 = 61_001;
const OTHER: u32 = 61_002;
/// The first of the user numbers that the greedy user has in a namespace.
const SUBORDINATE: u32 = 900_000;
/// The number of nodes, and the number of pairs of processes that the greedy user starts. Each of these
/// processes needs a node.
const ROOM: u32 = 512;
const PAIRS: u32 = 400;

/// Makes the calling process another user's.
fn become_user(user: u32) {
    // SAFETY: the call takes only numbers.
    unsafe {
        assert_eq!(libc::setresgid(user, user, user), 0);
        assert_eq!(libc::setresuid(user, user, user), 0);
    }
}

/// Starts pairs of processes, in which one waits for the other; `prepare` is called in each process.
fn pairs(prepare: impl Fn(u32)) {
    for pair in 0..PAIRS {
        let ends = pipe();
        for is_reader in [true, false] {
            // SAFETY: the child only makes system calls, and ends with its parent.
            if unsafe { libc::fork() } == 0 {
                prepare(pair);
                // SAFETY: the call takes only numbers.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                while is_reader && get(ends[0]) > 0 {}
                while !is_reader && put(ends[1]) > 0 {
                    nap(500);
                }
            }
        }
        // SAFETY: the descriptors are this process' own.
        unsafe { (libc::close(ends[0]), libc::close(ends[1])) };
    }
    nap(600_000);
}

/// Starts two processes of the other user; one of them waits for the other.
fn other_pair() -> (Child, Child) {
    let ends = pipe();
    let reader = child(|| {
        become_user(OTHER);
        while get(ends[0]) > 0 {}
    });
    let writer = child(|| {
        become_user(OTHER);
        while put(ends[1]) > 0 {
            nap(2);
        }
    });
    (reader, writer)
}

/// Waits until a crowd of processes has as many nodes as it can get, then checks that another
/// user gets nodes.
fn another_is_seen_beside(world: &mut World, crowd: Child) {
    world.wait("the crowd wants more than it gets", |world| world.collector.nodes().lost_nodes() > 300);
    nap(1_000);
    let taken = world.collector.nodes().taken();
    // Other processes of this machine have nodes, too, but not so many.
    assert!((200..300).contains(&taken), "{taken} of {ROOM} are taken");
    let (reader, writer) = other_pair();
    world.wait("an edge", |world| world.weight(reader.0, writer.0) >= 10);
    drop(crowd);
    world.wait("they are given back", |world| world.collector.nodes().taken() < 60);
}

#[test]
fn a_user_with_very_many_processes_leaves_half_of_the_nodes() {
    let mut world = World::with_room_for(ROOM);
    let crowd = child(|| {
        become_user(GREEDY);
        pairs(|_| ());
    });
    another_is_seen_beside(&mut world, crowd);
}

/// A crowd of pairs of processes with their own user numbers, in a user namespace that `maker` made.
fn crowd_in_a_namespace(maker: u32) -> Child {
    let (made, mapped) = (pipe(), pipe());
    let crowd = child(|| {
        if maker != 0 {
            become_user(maker);
        }
        // SAFETY: the calls take only numbers. A process that became another user's is dumpable by root
        // alone, so root writes the map of users.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWUSER) }, 0);
        put(made[1]);
        get(mapped[0]);
        pairs(|pair| become_user(pair + 1));
    });
    get(made[0]);
    for kind in ["uid_map", "gid_map"] {
        fs::write(format!("/proc/{}/{kind}", crowd.0.0), format!("0 {SUBORDINATE} 1000")).expect("a map");
    }
    put(mapped[1]);
    crowd
}

#[test]
fn numbers_of_a_user_namespace_are_of_the_user_that_made_it() {
    let mut world = World::with_room_for(ROOM);
    let crowd = crowd_in_a_namespace(GREEDY);
    another_is_seen_beside(&mut world, crowd);
}

#[test]
fn numbers_of_a_user_namespace_that_root_made_are_of_one_user() {
    let mut world = World::with_room_for(ROOM);
    let crowd = crowd_in_a_namespace(0);
    another_is_seen_beside(&mut world, crowd);
}
