//! Filter expressions: compiled by libpcap, so that they mean what they mean to `tcpdump`.
//!
//! The language of pcap-filter(7) is large and has grown for thirty years; a second compiler for it would
//! differ somewhere. The library is opened when the first expression is compiled, and not linked: evenkeel is
//! built without it, and runs without it as long as nobody gives an expression. Five functions of it are
//! used; none has changed since libpcap 1.0 (2008).

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ffi::CString;
use std::fmt;
use std::ptr::NonNull;

use evenkeel_core::bpf::{Instruction, Program};

/// A filter expression with the program it was compiled to.
#[derive(Clone)]
pub struct Expression {
    text: String,
    program: Program,
}

/// An expression could not be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// libpcap is not there.
    #[error(
        "cannot read the filter expression: libpcap.so is not installed; install it (apt install libpcap0.8, \
         dnf install libpcap, apk add \
         libpcap), or leave the expression away and capture everything"
    )]
    NoLibrary,
    /// libpcap is there, and lacks a function.
    #[error("cannot read the filter expression: this libpcap has no `{0}`")]
    NoFunction(&'static str),
    /// The expression makes no sense.
    #[error("filter `{expression}`: {what}; see pcap-filter(7)")]
    Expression {
        /// The expression.
        expression: String,
        /// What libpcap says.
        what: String,
    },
}

/// The link type of Ethernet, as libpcap numbers them (`DLT_EN10MB`).
const ETHERNET: c_int = 1;
/// What a frame that is wanted gets: all of it. The largest snapshot length of libpcap.
const WHOLE: c_int = 262_144;
/// `PCAP_NETMASK_UNKNOWN`: `ip broadcast` is then refused.
const NETMASK_UNKNOWN: c_uint = c_uint::MAX;

/// Names it goes by: Debian's, then that of the sources, then that of development files.
const NAMES: [&CStr; 3] = [c"libpcap.so.0.8", c"libpcap.so.1", c"libpcap.so"];

impl Expression {
    /// Compiles an expression for Ethernet frames that have their VLAN tags in place.
    ///
    /// Names of hosts are looked up, as `tcpdump` does.
    ///
    /// # Errors
    /// [`FilterError`]
    pub fn compile(text: &str) -> Result<Self, FilterError> {
        let refuse = |what: String| FilterError::Expression { expression: text.to_owned(), what };
        let c_text = CString::new(text).map_err(|_| refuse("an expression has no zero byte".to_owned()))?;
        let program = Library::open()?.compile(&c_text).map_err(refuse)?;
        let program = Program::new(&program).map_err(|error| refuse(error.to_string()))?;
        Ok(Self { text: text.to_owned(), program })
    }

    /// The expression as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it was compiled to.
    #[must_use]
    pub const fn program(&self) -> &Program {
        &self.program
    }

    /// Whether it may be run by the kernel in our place, and mean the same.
    ///
    /// The kernel takes the outer VLAN tag out of a frame before it runs filters, so that one that asks for
    /// tags sees none there.
    #[must_use]
    pub fn suits_kernel(&self) -> bool {
        let words: Vec<&str> =
            self.text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
        let addresses = ["host", "src", "dst", "multicast", "broadcast"];
        !words.iter().enumerate().any(|(at, &word)| match word {
            "vlan" => true,
            // A type, or bytes by their place: either may lie where the tag was.
            "ether" | "link" => words.get(at + 1).is_none_or(|next| !addresses.contains(next)),
            _ => false,
        })
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expression({:?}, {} instructions)", self.text, self.program.instructions().len())
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// `struct bpf_program`.
#[repr(C)]
struct BpfProgram {
    len: c_uint,
    instructions: *mut BpfInstruction,
}

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy)]
struct BpfInstruction {
    code: u16,
    jt: u8,
    jf: u8,
    k: u32,
}

/// `pcap_t`, of which only libpcap knows the inside.
type Handle = *mut c_void;

type OpenDead = unsafe extern "C" fn(c_int, c_int) -> Handle;
type Compile = unsafe extern "C" fn(Handle, *mut BpfProgram, *const c_char, c_int, c_uint) -> c_int;
type GetError = unsafe extern "C" fn(Handle) -> *mut c_char;
type FreeCode = unsafe extern "C" fn(*mut BpfProgram);
type Close = unsafe extern "C" fn(Handle);

/// The library, opened. It stays loaded: what it has set up for itself could not be taken down safely.
#[derive(Clone, Copy)]
struct Library {
    open_dead: OpenDead,
    compile: Compile,
    get_error: GetError,
    free_code: FreeCode,
    close: Close,
}

impl Library {
    fn open() -> Result<Self, FilterError> {
        let library = Loaded::open(&NAMES).ok_or(FilterError::NoLibrary)?;
        let find = |name: &CStr, shown| library.find(name).ok_or(FilterError::NoFunction(shown));
        // SAFETY: each is a function of libpcap's stable interface (pcap/pcap.h) with the type given here.
        unsafe {
            Ok(Self {
                open_dead: core::mem::transmute::<NonNull<c_void>, OpenDead>(find(
                    c"pcap_open_dead",
                    "pcap_open_dead",
                )?),
                compile: core::mem::transmute::<NonNull<c_void>, Compile>(find(
                    c"pcap_compile",
                    "pcap_compile",
                )?),
                get_error: core::mem::transmute::<NonNull<c_void>, GetError>(find(
                    c"pcap_geterr",
                    "pcap_geterr",
                )?),
                free_code: core::mem::transmute::<NonNull<c_void>, FreeCode>(find(
                    c"pcap_freecode",
                    "pcap_freecode",
                )?),
                close: core::mem::transmute::<NonNull<c_void>, Close>(find(c"pcap_close", "pcap_close")?),
            })
        }
    }

    /// The instructions, or what libpcap has to say.
    fn compile(&self, text: &CStr) -> Result<Vec<Instruction>, String> {
        // SAFETY: opens no device; the handle is closed below, on the one way out.
        let handle = unsafe { (self.open_dead)(ETHERNET, WHOLE) };
        if handle.is_null() {
            return Err("out of memory".to_owned());
        }
        let mut program = BpfProgram { len: 0, instructions: core::ptr::null_mut() };
        // SAFETY: the handle is live, the text ends in a zero byte and outlives the call, `program` is ours
        // to be filled.
        let done =
            unsafe { (self.compile)(handle, &raw mut program, text.as_ptr(), OPTIMIZE, NETMASK_UNKNOWN) };
        let result = if done == 0 {
            // SAFETY: compiled, so `program` holds `len` instructions; the copy is made before they are
            // freed, once.
            unsafe {
                let copy = copy(&program);
                (self.free_code)(&raw mut program);
                Ok(copy)
            }
        } else {
            // SAFETY: the message is a C string inside the live handle, copied here.
            Err(unsafe { CStr::from_ptr((self.get_error)(handle)) }.to_string_lossy().into_owned())
        };
        // SAFETY: opened above, and nothing of it is used any more.
        unsafe { (self.close)(handle) };
        result
    }
}

const OPTIMIZE: c_int = 1;

/// The instructions of a compiled program.
///
/// # Safety
/// `program` holds as many live instructions as it says, or a null pointer.
unsafe fn copy(program: &BpfProgram) -> Vec<Instruction> {
    if program.instructions.is_null() {
        return Vec::new();
    }
    // SAFETY: as the caller says; plain integers of any value.
    let list = unsafe { core::slice::from_raw_parts(program.instructions, program.len as usize) };
    list.iter().map(|&BpfInstruction { code, jt, jf, k }| Instruction { code, jt, jf, k }).collect()
}

/// A shared object that stays loaded.
struct Loaded(NonNull<c_void>);

impl Loaded {
    fn open(names: &[&CStr]) -> Option<Self> {
        names.iter().find_map(|name| {
            // SAFETY: the name is a C string. libpcap's initialisers, which this runs, do nothing but set up
            // the library.
            NonNull::new(unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) }).map(Self)
        })
    }

    fn find(&self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the handle comes from `dlopen` and is never closed; the name is a C string.
        NonNull::new(unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) })
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_skip::Lack;

    use super::*;

    fn skipped() -> bool {
        let missing = matches!(Library::open(), Err(FilterError::NoLibrary));
        if missing {
            let lack = Lack::Program { program: "libpcap", package: "libpcap0.8" };
            evenkeel_skip::skip(std::thread::current().name().unwrap_or("a test"), &lack);
        }
        missing
    }

    #[test]
    fn an_expression_becomes_a_program() {
        if skipped() {
            return;
        }
        let expression = Expression::compile("udp port 9 and not host 10.0.0.1").unwrap();
        assert_eq!(expression.to_string(), "udp port 9 and not host 10.0.0.1");
        assert!(expression.program().instructions().len() > 10);
        assert_eq!(Expression::compile("").unwrap().program().run(&[0; 60], 60), WHOLE as u32);
    }

    #[test]
    fn what_libpcap_does_not_understand_is_said_in_its_words() {
        if skipped() {
            return;
        }
        let error = |text: &str| Expression::compile(text).unwrap_err().to_string();
        assert!(
            error("udp prot 9")
                .starts_with("filter `udp prot 9`: can't parse filter expression: syntax error")
        );
        assert!(error("host 10.0.0.256").contains("10.0.0.256"), "{}", error("host 10.0.0.256"));
        assert!(error("ip and arp").contains("rejects all packets"), "{}", error("ip and arp"));
        assert!(error("udp\0").contains("zero byte"));
    }

    #[test]
    fn what_asks_for_tags_is_not_for_the_kernel() {
        if skipped() {
            return;
        }
        for (text, suits) in [
            ("", true),
            ("udp port 53", true),
            ("tcp[13] & 2 != 0 and ether src 02:00:00:00:00:01", true),
            ("vlan 7 and udp", false),
            ("not vlan", false),
            ("ether[12:2] == 0x8100", false),
            ("ether proto 0x8100", false),
        ] {
            assert_eq!(Expression::compile(text).unwrap().suits_kernel(), suits, "{text}");
        }
    }

    #[test]
    fn a_library_that_is_not_there_is_said() {
        assert!(Loaded::open(&[c"libpcap-of-no-version.so.77"]).is_none());
        let error = FilterError::NoLibrary.to_string();
        assert!(error.contains("apt install libpcap0.8") && !error.contains("  "), "{error}");
    }

    /// Our interpreter against that of libpcap: as many expressions as the manual has kinds, frames of every
    /// kind and damage.
    #[test]
    fn frames_are_judged_as_by_libpcap() {
        if skipped() {
            return;
        }
        let frames = frames();
        let offline = OfflineFilter::open();
        for text in EXPRESSIONS {
            let expression = Expression::compile(text).unwrap();
            let mut wanted = 0;
            for frame in &frames {
                let ours = expression.program().run(frame, frame.len());
                assert_eq!(ours, offline.run(&expression, frame), "{text}: {frame:02x?}");
                wanted += u32::from(ours > 0);
            }
            assert!(wanted > 0, "{text} wants no frame: the frames are too much alike");
        }
    }

    const EXPRESSIONS: [&str; 24] = [
        "ip",
        "ip6",
        "arp",
        "udp",
        "tcp",
        "icmp or icmp6",
        "udp port 9",
        "src port 7 or dst portrange 5-10",
        "host 10.0.0.1",
        "src net 10.0.0.0/8 and not dst host 10.0.0.2",
        "ip6 host fd77::1",
        "net fd77::/16",
        "ether host 02:00:00:00:00:01",
        "ether multicast",
        "ip multicast or ip6 multicast",
        "greater 100",
        "less 80",
        "len > 64 and len <= 1000",
        "vlan",
        "vlan 7 and udp",
        "ip[0] & 0xf != 5",
        "ip[6:2] & 0x1fff != 0",
        "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
        "udp[8:4] == 0x01020304 or (len * 3) % 7 = 2",
    ];

    /// Frames of all kinds, whole, cut off, and with single bytes changed.
    fn frames() -> Vec<Vec<u8>> {
        let mut whole = Vec::new();
        for proto in [1, 6, 17] {
            for words in [5, 6, 15] {
                for len in [20, 90, 1200] {
                    whole.push(ipv4(proto, words, len));
                }
            }
        }
        for proto in [6, 17, 58] {
            whole.push(ipv6(proto));
        }
        whole.push([&[0xff; 12][..], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &[0; 36]].concat());
        let tagged: Vec<_> = whole.iter().map(|f| [&f[..12], &[0x81, 0, 0, 7], &f[12..]].concat()).collect();
        whole.extend(tagged);
        let mut all = whole.clone();
        let mut seed = 1_u64;
        let mut random = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as usize
        };
        for frame in &whole {
            all.extend((0..frame.len().min(80)).map(|len| frame[..len].to_vec()));
            all.extend((0..300).map(|_| {
                let mut bad = frame.clone();
                let at = random() % bad.len().min(64);
                bad[at] = random() as u8;
                bad
            }));
        }
        all
    }

    fn ipv4(proto: u8, words: u8, len: usize) -> Vec<u8> {
        let mut frame = vec![0; 14 + 4 * usize::from(words) + len];
        frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14] = 0x40 | words;
        frame[23] = proto;
        frame[26..30].copy_from_slice(&[10, 0, 0, 1]);
        frame[30..34].copy_from_slice(&[224, 0, 0, 251]);
        let payload = 14 + 4 * usize::from(words);
        frame[payload..payload + 4].copy_from_slice(&[0, 7, 0, 9]);
        frame[payload + 8..payload + 12].copy_from_slice(&[1, 2, 3, 4]);
        frame[payload + 13] = 2;
        frame
    }

    fn ipv6(proto: u8) -> Vec<u8> {
        let mut frame = vec![0; 14 + 40 + 30];
        frame[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1]);
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        frame[14] = 0x60;
        frame[20] = proto;
        frame[22..24].copy_from_slice(&[0xfd, 0x77]);
        frame[37] = 1;
        frame[38..40].copy_from_slice(&[0xff, 0x02]);
        frame[54..58].copy_from_slice(&[0, 9, 0, 7]);
        frame
    }

    /// `pcap_offline_filter`.
    struct OfflineFilter(Offline);

    type Offline = unsafe extern "C" fn(*const BpfProgram, *const PacketHeader, *const u8) -> c_int;

    /// `struct pcap_pkthdr`.
    #[repr(C)]
    struct PacketHeader {
        time: libc::timeval,
        captured: u32,
        len: u32,
    }

    impl OfflineFilter {
        fn open() -> Self {
            let function = Loaded::open(&NAMES).unwrap().find(c"pcap_offline_filter").unwrap();
            // SAFETY: the type that pcap/pcap.h gives it.
            Self(unsafe { core::mem::transmute::<NonNull<c_void>, Offline>(function) })
        }

        fn run(&self, expression: &Expression, frame: &[u8]) -> u32 {
            let list = expression.program().instructions().iter();
            let mut list: Vec<_> =
                list.map(|&Instruction { code, jt, jf, k }| BpfInstruction { code, jt, jf, k }).collect();
            let program = BpfProgram { len: list.len() as c_uint, instructions: list.as_mut_ptr() };
            let len = frame.len() as u32;
            let time = libc::timeval { tv_sec: 0, tv_usec: 0 };
            let header = PacketHeader { time, captured: len, len };
            // SAFETY: program, header and frame are live, and say how long they are.
            unsafe { (self.0)(&raw const program, &raw const header, frame.as_ptr()) as u32 }
        }
    }
}
