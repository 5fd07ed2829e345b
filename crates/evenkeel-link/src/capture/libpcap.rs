//! Filter expressions, compiled by libpcap, so that they have the meaning that they have in `tcpdump`.
//!
//! The language of pcap-filter(7) is large and has grown for thirty years; a second compiler would differ
//! somewhere. The library is not linked: it is opened when the first expression is compiled. So evenkeel
//! builds without it, and runs without it until an expression is used. Eight of its functions are used; none
//! has changed since libpcap 1.0 (2008).
//!
//! The meaning of an expression depends on the link. So libpcap gets the input that it would have in
//! `tcpdump`: the device itself if the kernel is to run the filter, or a file with the header of the file
//! being read.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ffi::CString;
use std::fmt;
use std::ptr::NonNull;

use evenkeel_core::bpf::{Instruction, Program};
use evenkeel_core::capture::KEPT_BYTES_MAX;
use evenkeel_core::frame::LinkType;

use super::frames::{Frames, Origin};

/// A filter expression. It is compiled for the frames that it is to judge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    text: String,
}

/// An error of compiling an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// libpcap is not installed.
    #[error(
        "cannot read the filter expression: libpcap.so is not installed; install it (apt install libpcap0.8, \
         dnf install libpcap, apk add \
         libpcap), or leave the expression away and capture everything"
    )]
    NoLibrary,
    /// A program that is linked statically cannot load libpcap.
    #[error(
        "cannot read the filter expression: libpcap reads it, which a static program cannot load; use the \
         Debian package's program, or leave the expression away and capture everything"
    )]
    Static,
    /// libpcap lacks a function.
    #[error("cannot read the filter expression: this libpcap has no `{0}`")]
    NoFunction(&'static str),
    /// libpcap rejected the expression.
    #[error("filter `{expression}`: {what}; see pcap-filter(7)")]
    Expression {
        /// The expression.
        expression: String,
        /// The error message of libpcap.
        what: String,
    },
}

/// The snapshot length given to libpcap: a frame that passes a filter is kept whole.
const WHOLE: c_int = KEPT_BYTES_MAX as c_int;

/// Names of the library: Debian's, that of the sources, and that of development files.
const NAMES: [&CStr; 3] = [c"libpcap.so.0.8", c"libpcap.so.1", c"libpcap.so"];

impl Expression {
    /// Creates an expression from its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }

    /// Returns the text of the expression.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Compiles the expression for frames that have their VLAN tags in place.
    ///
    /// Names of hosts are resolved, as by `tcpdump`.
    ///
    /// # Errors
    /// [`FilterError`]
    pub fn compile(&self, frames: &Frames) -> Result<Program, FilterError> {
        let program = self.compile_with(frames, |library| match frames.origin {
            Origin::File { big_endian } => Opened::file(library, frames.link_type, big_endian),
            Origin::Device { .. } | Origin::Memory => Opened::nothing(library, frames.link_type),
        })?;
        Ok(match frames.origin {
            Origin::Device { number, .. } => program.on_interface(number),
            Origin::File { .. } | Origin::Memory => program,
        })
    }

    /// Compiles the expression for the kernel, which is to run it on the frames of a device. Returns `None`
    /// if the frames are not a device's or the kernel cannot run the program. Also returns `None` if the
    /// kernel would run it on other bytes than the frame has on the wire: it removes the outer VLAN tag
    /// before it runs filters. A `vlan` in the expression reads the removed tag.
    ///
    /// # Errors
    /// [`FilterError`]
    pub fn compile_for_kernel(&self, frames: &Frames) -> Result<Option<Program>, FilterError> {
        let Origin::Device { name, .. } = &frames.origin else { return Ok(None) };
        if self.asks_for_link_header() {
            return Ok(None);
        }
        let name = CString::new(name.as_str()).unwrap_or_default();
        let mut is_live = true;
        let program = self.compile_with(frames, |library| {
            Opened::device(library, &name).or_else(|_| {
                // The expression is compiled even without the privilege to open the device. Opening the
                // device later reports the missing privilege.
                is_live = false;
                Opened::nothing(library, frames.link_type)
            })
        })?;
        let suits = program.suits_kernel() && (is_live || !self.words().any(|word| word == "vlan"));
        Ok(suits.then_some(program))
    }

    fn compile_with(
        &self,
        frames: &Frames,
        open: impl FnOnce(Library) -> Result<Opened, String>,
    ) -> Result<Program, FilterError> {
        let refuse = |what: String| FilterError::Expression { expression: self.text.clone(), what };
        let zero = |_| refuse("an expression has no zero byte".to_owned());
        let text = CString::new(self.text.as_str()).map_err(zero)?;
        let opened = open(Library::open()?).map_err(refuse)?;
        let instructions = opened.compile(&text, frames.netmask().to_bits()).map_err(refuse)?;
        Program::new(&instructions).map_err(|error| refuse(error.to_string()))
    }

    /// Returns whether the expression is to judge frames of a device as the kernel shows them to filters:
    /// without their outer VLAN tag. This holds unless the expression asks for a tag, or for bytes that may
    /// be one.
    pub(super) fn is_for_untagged(&self, frames: &Frames) -> bool {
        let is_device = matches!(frames.origin, Origin::Device { .. });
        is_device && !self.asks_for_link_header() && !self.words().any(|word| word == "vlan")
    }

    /// Returns whether the expression asks for a type, or for bytes by their place in the frame. Either may
    /// lie in the place of a VLAN tag.
    fn asks_for_link_header(&self) -> bool {
        let words: Vec<&str> = self.words().collect();
        let addresses = ["host", "src", "dst", "multicast", "broadcast"];
        words.iter().enumerate().any(|(at, &word)| {
            let bytes = ["ether", "link"].contains(&word);
            bytes && words.get(at + 1).is_none_or(|next| !addresses.contains(next))
        })
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        self.text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A BPF program as libpcap lays it out (`struct bpf_program`).
#[repr(C)]
struct BpfProgram {
    len: c_uint,
    instructions: *mut BpfInstruction,
}

/// A BPF instruction as libpcap lays it out (`struct bpf_insn`).
#[repr(C)]
#[derive(Clone, Copy)]
struct BpfInstruction {
    code: u16,
    jt: u8,
    jf: u8,
    k: u32,
}

/// `pcap_t`, whose content only libpcap knows.
type Handle = *mut c_void;

type OpenDead = unsafe extern "C" fn(c_int, c_int) -> Handle;
type OpenFile = unsafe extern "C" fn(*mut libc::FILE, *mut c_char) -> Handle;
type Create = unsafe extern "C" fn(*const c_char, *mut c_char) -> Handle;
type Activate = unsafe extern "C" fn(Handle) -> c_int;
type Compile = unsafe extern "C" fn(Handle, *mut BpfProgram, *const c_char, c_int, c_uint) -> c_int;
type GetError = unsafe extern "C" fn(Handle) -> *mut c_char;
type FreeCode = unsafe extern "C" fn(*mut BpfProgram);
type Close = unsafe extern "C" fn(Handle);

/// The opened library. It stays loaded, because its internal state cannot be removed safely.
#[derive(Clone, Copy)]
struct Library {
    open_dead: OpenDead,
    open_file: OpenFile,
    create: Create,
    activate: Activate,
    compile: Compile,
    get_error: GetError,
    free_code: FreeCode,
    close: Close,
}

impl Library {
    fn open() -> Result<Self, FilterError> {
        if cfg!(target_feature = "crt-static") {
            return Err(FilterError::Static);
        }
        let library = Loaded::open(&NAMES).ok_or(FilterError::NoLibrary)?;
        macro_rules! find {
            ($name:literal as $function:ty) => {{
                let name = concat!($name, "\0").as_bytes();
                let symbol = CStr::from_bytes_with_nul(name).ok().and_then(|name| library.find(name));
                let symbol = symbol.ok_or(FilterError::NoFunction($name))?;
                // SAFETY: this is a function of libpcap's stable interface (pcap/pcap.h), with its type.
                unsafe { core::mem::transmute::<NonNull<c_void>, $function>(symbol) }
            }};
        }
        Ok(Self {
            open_dead: find!("pcap_open_dead" as OpenDead),
            open_file: find!("pcap_fopen_offline" as OpenFile),
            create: find!("pcap_create" as Create),
            activate: find!("pcap_activate" as Activate),
            compile: find!("pcap_compile" as Compile),
            get_error: find!("pcap_geterr" as GetError),
            free_code: find!("pcap_freecode" as FreeCode),
            close: find!("pcap_close" as Close),
        })
    }
}

/// A `pcap_t` with the link type and byte order for which libpcap compiles expressions. Closed when dropped.
struct Opened {
    library: Library,
    handle: NonNull<c_void>,
    /// The header of a capture file, which the handle may read while it is open.
    _header: Box<[u8]>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: the constructors opened the handle, and it is not used any more.
        unsafe { (self.library.close)(self.handle.as_ptr()) }
    }
}

/// The size in bytes of libpcap's error buffer (`PCAP_ERRBUF_SIZE`).
const ERROR_BYTES: usize = 256;

impl Opened {
    /// Opens a handle that compiles for frames in memory. Opens no device.
    fn nothing(library: Library, link_type: LinkType) -> Result<Self, String> {
        // SAFETY: the call opens no device; the handle is closed when dropped.
        let handle = unsafe { (library.open_dead)(data_link_type(link_type), WHOLE) };
        Self::checked(library, handle, Box::default(), || "out of memory".to_owned())
    }

    /// Opens a handle that compiles for frames of a file of this link type, written by a machine of this
    /// byte order.
    fn file(library: Library, link_type: LinkType, big_endian: bool) -> Result<Self, String> {
        let mut header = header(link_type, big_endian);
        // SAFETY: the header outlives the stream and does not move: the stream ends with the handle, or below
        // if there is no handle. `r` is a C string.
        let stream = unsafe { libc::fmemopen(header.as_mut_ptr().cast(), header.len(), c"r".as_ptr()) };
        if stream.is_null() {
            return Err("out of memory".to_owned());
        }
        let mut error = [0; ERROR_BYTES];
        // SAFETY: the stream is open, and the error buffer has the size that libpcap requires.
        let handle = unsafe { (library.open_file)(stream, error.as_mut_ptr()) };
        if handle.is_null() {
            // SAFETY: opened above; libpcap closes the stream only with a handle.
            unsafe { libc::fclose(stream) };
        }
        Self::checked(library, handle, header, || text(&error))
    }

    /// Opens a network device briefly, as `tcpdump` opens it.
    fn device(library: Library, name: &CStr) -> Result<Self, String> {
        let mut error = [0; ERROR_BYTES];
        // SAFETY: the name is a C string, and the error buffer has the size that libpcap requires.
        let handle = unsafe { (library.create)(name.as_ptr(), error.as_mut_ptr()) };
        let opened = Self::checked(library, handle, Box::default(), || text(&error))?;
        // SAFETY: the handle is live, and not active yet. Warnings are positive numbers.
        let activated = unsafe { (library.activate)(opened.handle.as_ptr()) };
        if activated < 0 { Err(opened.error()) } else { Ok(opened) }
    }

    fn checked(
        library: Library,
        handle: Handle,
        header: Box<[u8]>,
        error: impl FnOnce() -> String,
    ) -> Result<Self, String> {
        let handle = NonNull::new(handle).ok_or_else(error)?;
        Ok(Self { library, handle, _header: header })
    }

    /// Returns libpcap's message about the last error of this handle.
    fn error(&self) -> String {
        // SAFETY: the message is a C string inside the live handle, copied here.
        unsafe { CStr::from_ptr((self.library.get_error)(self.handle.as_ptr())) }
            .to_string_lossy()
            .into_owned()
    }

    /// Compiles an expression; `netmask` is in numeric form.
    ///
    /// # Errors
    /// The message of libpcap.
    fn compile(&self, text: &CStr, netmask: u32) -> Result<Vec<Instruction>, String> {
        let mut program = BpfProgram { len: 0, instructions: core::ptr::null_mut() };
        let (library, handle) = (&self.library, self.handle.as_ptr());
        // SAFETY: the handle is live, the text ends in a zero byte and outlives the call, and `program` is a
        // local variable for the result.
        let done = unsafe { (library.compile)(handle, &raw mut program, text.as_ptr(), OPTIMIZE, netmask) };
        if done != 0 {
            return Err(self.error());
        }
        // SAFETY: the call succeeded, so `program` holds `len` instructions. They are copied before they are
        // freed, once.
        unsafe {
            let copy = copy(&program);
            (library.free_code)(&raw mut program);
            Ok(copy)
        }
    }
}

/// Returns the text in a buffer that libpcap has written an error to.
fn text(buffer: &[c_char]) -> String {
    let bytes: Vec<u8> = buffer.iter().map(|&c| c.cast_unsigned()).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns libpcap's own number for the link type of a device (`DLT_`).
fn data_link_type(link_type: LinkType) -> c_int {
    const DLT_RAW: c_int = 12;
    if link_type == LinkType::RAW { DLT_RAW } else { link_type.0.into() }
}

/// Returns the header of a capture file without frames.
fn header(link_type: LinkType, big_endian: bool) -> Box<[u8]> {
    // The fields are: magic number, version 2.4, time zone, accuracy, snapshot length, link type.
    let version = if big_endian { 2 << 16 | 4 } else { 4 << 16 | 2 };
    let words = [0xa1b2_c3d4, version, 0, 0, WHOLE.cast_unsigned(), link_type.0.into()];
    words.iter().flat_map(|word| if big_endian { word.to_be_bytes() } else { word.to_le_bytes() }).collect()
}

const OPTIMIZE: c_int = 1;

/// Copies the instructions of a compiled program.
///
/// # Safety
/// `program` holds `len` live instructions, or a null pointer.
unsafe fn copy(program: &BpfProgram) -> Vec<Instruction> {
    if program.instructions.is_null() {
        return Vec::new();
    }
    // SAFETY: guaranteed by the caller; the instructions are plain integers of any value.
    let list = unsafe { core::slice::from_raw_parts(program.instructions, program.len as usize) };
    list.iter().map(|&BpfInstruction { code, jt, jf, k }| Instruction { code, jt, jf, k }).collect()
}

/// A shared object that stays loaded.
struct Loaded(NonNull<c_void>);

impl Loaded {
    fn open(names: &[&CStr]) -> Option<Self> {
        names.iter().find_map(|name| {
            // SAFETY: the name is a C string. libpcap's initializers, which this call runs, only set up the
            // library.
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

    fn on_ethernet(text: &str) -> Result<Program, FilterError> {
        Expression::new(text).compile(&Frames::ETHERNET)
    }

    #[test]
    fn an_expression_becomes_a_program() {
        if skipped() {
            return;
        }
        let expression = Expression::new("udp port 9 and not host 10.0.0.1");
        assert_eq!(expression.to_string(), "udp port 9 and not host 10.0.0.1");
        assert!(on_ethernet(expression.text()).unwrap().instructions().len() > 10);
        assert_eq!(on_ethernet("").unwrap().run(&[0; 60], 60), WHOLE as u32);
    }

    #[test]
    fn what_libpcap_does_not_understand_is_said_in_its_words() {
        if skipped() {
            return;
        }
        let error = |text: &str| on_ethernet(text).unwrap_err().to_string();
        assert!(
            error("udp prot 9")
                .starts_with("filter `udp prot 9`: can't parse filter expression: syntax error")
        );
        assert!(error("host 10.0.0.256").contains("10.0.0.256"), "{}", error("host 10.0.0.256"));
        assert!(error("ip and arp").contains("rejects all packets"), "{}", error("ip and arp"));
        assert!(error("udp\0").contains("zero byte"));
    }

    #[test]
    fn what_asks_for_bytes_where_a_tag_was_is_not_for_the_kernel() {
        for (text, asks) in [
            ("", false),
            ("udp port 53", false),
            ("tcp[13] & 2 != 0 and ether src 02:00:00:00:00:01", false),
            ("vlan 7 and udp", false),
            ("ether[12:2] == 0x8100", true),
            ("ether proto 0x8100", true),
        ] {
            assert_eq!(Expression::new(text).asks_for_link_header(), asks, "{text}");
        }
    }

    /// On BSD's loopback a header of four bytes, in the writer's byte order, gives the protocol of a frame.
    #[test]
    fn a_file_is_judged_by_its_link_type_and_byte_order() {
        if skipped() {
            return;
        }
        let family = |text: &str, big_endian| {
            let program = Expression::new(text).compile(&Frames::of_file(LinkType(0), big_endian)).unwrap();
            [2_u32.to_le_bytes(), 2_u32.to_be_bytes()].map(|header| {
                let frame = [&header[..], &[0x45; 40]].concat();
                program.run(&frame, frame.len()) > 0
            })
        };
        assert_eq!([family("ip", false)[0], family("ip", true)[1]], [true; 2]);
        let of = |link_type, text: &str| {
            Expression::new(text).compile(&Frames::of_file(LinkType(link_type), false))
        };
        assert!(of(127, "wlan type mgt").is_ok() && of(276, "ifindex 3 and inbound").is_ok());
        let error = of(1, "inbound").unwrap_err().to_string();
        assert!(error.contains("inbound"), "no direction is known of what lies in a file: {error}");
        assert!(of(60_000, "ip").is_err_and(|error| error.to_string().contains("60000")));
    }

    #[test]
    fn a_library_that_is_not_there_is_said() {
        assert!(Loaded::open(&[c"libpcap-of-no-version.so.77"]).is_none());
        let error = FilterError::NoLibrary.to_string();
        assert!(error.contains("apt install libpcap0.8") && !error.contains("  "), "{error}");
    }

    /// Our interpreter must agree with libpcap's: for expressions of all kinds in the manual, and frames of
    /// every kind and damage.
    #[test]
    fn frames_are_judged_as_by_libpcap() {
        if skipped() {
            return;
        }
        let frames = frames();
        let offline = OfflineFilter::open();
        for text in EXPRESSIONS {
            let program = on_ethernet(text).unwrap();
            let mut wanted = 0;
            for frame in &frames {
                let ours = program.run(frame, frame.len());
                assert_eq!(ours, offline.run(&program, frame), "{text}: {frame:02x?}");
                wanted += u32::from(ours > 0);
            }
            assert!(wanted > 0, "{text} wants no frame: the frames are too much alike");
        }
    }

    const EXPRESSIONS: [&str; 28] = [
        "ip protochain 17",
        "ip6 protochain 17",
        "ip6 protochain 6 or ip protochain 6",
        "ip broadcast or ether broadcast or ip multicast",
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

    /// Returns frames of all kinds, whole, cut off, and with single bytes changed.
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

    /// The function `pcap_offline_filter` of libpcap, which runs a BPF program on a frame.
    struct OfflineFilter(Offline);

    type Offline = unsafe extern "C" fn(*const BpfProgram, *const PacketHeader, *const u8) -> c_int;

    /// The header of a packet as libpcap lays it out (`struct pcap_pkthdr`).
    #[repr(C)]
    struct PacketHeader {
        time: libc::timeval,
        captured: u32,
        len: u32,
    }

    impl OfflineFilter {
        fn open() -> Self {
            let function = Loaded::open(&NAMES).unwrap().find(c"pcap_offline_filter").unwrap();
            // SAFETY: this is its type in pcap/pcap.h.
            Self(unsafe { core::mem::transmute::<NonNull<c_void>, Offline>(function) })
        }

        fn run(&self, program: &Program, frame: &[u8]) -> u32 {
            let list = program.instructions().iter();
            let mut list: Vec<_> =
                list.map(|&Instruction { code, jt, jf, k }| BpfInstruction { code, jt, jf, k }).collect();
            let program = BpfProgram { len: list.len() as c_uint, instructions: list.as_mut_ptr() };
            let len = frame.len() as u32;
            let time = libc::timeval { tv_sec: 0, tv_usec: 0 };
            let header = PacketHeader { time, captured: len, len };
            // SAFETY: program, header and frame are live, and contain their lengths.
            unsafe { (self.0)(&raw const program, &raw const header, frame.as_ptr()) as u32 }
        }
    }
}
