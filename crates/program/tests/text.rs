//! The text format: printing and parsing keep the whole object, and errors have the right position.

use kiln_isa::{CallTarget, Insn};
use kiln_program::text::{TextError, listing, parse, parse_annotated, print};
use kiln_program::{FunctionId, Invalid, MapContents, MapId, MapSlot, Object, Reference, validate};

const EVERYTHING: &str = r#"
; object "dir/a file.o"
; license "Dual BSD/GPL"
; version 0x60c00
; map counters array key 4 value 8 entries 16 flags 0x80 extra 3 pinned key_btf 4 value_btf 5
; map .rodata array key 4 value 4 entries 1 flags 0x80 rodata 01020304
; map empty array key 4 value 4 entries 1 data -
; map jumps prog_array key 4 value 4 entries 3 slot 0=fn:main slot 2=fn:"odd name"
; map outer array_of_maps key 4 value 4 entries 2 slot 1=map:counters
; inner template hash key 4 value 8 entries 1
; map config array key 4 value 8 entries 1 flags 0x80 kconfig 8
; extern bpf_rdonly_cast kfunc weak btf 9
; extern jiffies typed_ksym
; extern CONFIG_HZ kconfig map config offset 4
; program xdp name count section xdp/devmap attach xdp_devmap frags
; function main btf 12
; line 10:3 "a.c" "  int x = \"quoted; # not a comment\";" at 5 17
  r1 = map[counters]
; core 3 "0:1:2" 0 at 99
  w2 = *(u32 *)(r1 + 0x4)
again:
  if r1 s> -5 goto again
; line none
  r3 = map_value[.rodata] + 2
  call add_one
  call map_lookup_elem     # a helper by its name
  call 0xfff               // one that does not exist
; line @0
  r2 = fn["odd name"]
; core @0
  call kfunc[bpf_rdonly_cast]
  r1 = extern[jiffies]
  r1 = extern[CONFIG_HZ]
; insn 40
  goto +0
  gotol out
out: exit
; function add_one
; line @2 12:1 "" ""
  r0 += 1
  exit
; program none name second noautoload sleepable
; function "odd name" weak section .text
; line @1 11:1 b.c text
  r0 = 0x1122334455667788 ll
  r0 = map[fd:3, high:-1]
  may_goto +1
  if w0 & w1 goto -6
  exit
; next_insn 99
; btf 00ff
; btf eb9f
"#;

fn everything() -> Object {
    parse(EVERYTHING).unwrap()
}

#[test]
fn all_parts_are_read() {
    let object = everything();
    validate(&object).unwrap();
    assert_eq!(object.name, "dir/a file.o");
    assert_eq!(object.next_insn, 99);
    assert_eq!(object.btf.as_deref(), Some(&[0, 0xff, 0xeb, 0x9f][..]));
    assert_eq!(object.lines[0].text, "  int x = \"quoted; # not a comment\";");
    assert_eq!(object.lines.iter().map(|line| line.line).collect::<Vec<_>>(), [10, 11, 12]);
    let slots = vec![(0, MapSlot::Function(FunctionId(0))), (2, MapSlot::Function(FunctionId(2)))];
    assert_eq!(object.maps[3].contents, MapContents::Slots(slots));
    assert_eq!(object.maps[4].contents, MapContents::Slots(vec![(1, MapSlot::Map(MapId(0)))]));
    assert_eq!(object.maps[4].inner.as_ref().unwrap().name, "template");
    let [main, add_one, odd] = &object.functions[..] else { panic!("three functions") };
    assert_eq!((&*main.section, &*add_one.section, &*odd.section), ("xdp/devmap", ".text", ".text"));
    assert_eq!(main.nodes[1].core.unwrap().0, 0);
    assert_eq!(main.nodes[2].reference, Reference::Branch(main.nodes[2].id));
    assert_eq!(main.nodes[3].reference, Reference::MapValue { map: MapId(1), offset: 2 });
    assert_eq!(main.nodes[3].line, None);
    assert_eq!(main.nodes[4].callee(), Some(FunctionId(1)));
    assert_eq!(main.nodes[5].helper(), Some(1));
    assert_eq!(main.nodes[11].reference, Reference::Branch(main.nodes[12].id));
    assert_eq!(main.nodes[11].id.0, 40);
    assert_eq!(odd.nodes[3].reference, Reference::Branch(odd.nodes[0].id));
}

#[test]
fn printing_and_parsing_are_inverse() {
    let object = everything();
    let text = print(&object);
    assert_eq!(parse(&text).unwrap(), object, "{text}");
    assert_eq!(print(&parse(&text).unwrap()), text);
}

#[test]
fn a_listing_parses_to_the_same_code() {
    let object = everything();
    let again = parse(&listing(&object)).unwrap();
    assert_eq!(listing(&again), listing(&object));
    assert_eq!(object.functions.len(), again.functions.len());
    for (one, other) in object.functions.iter().zip(&again.functions) {
        let insns = |function: &kiln_program::Function| function.nodes.iter().map(|node| node.insn).collect::<Vec<_>>();
        assert_eq!(insns(one), insns(other));
    }
}

#[test]
fn ambiguous_names_are_printed_by_index() {
    let mut object = everything();
    object.functions[1].name = "main".to_owned();
    object.maps[0].name = ".rodata".to_owned();
    object.functions[2].name = "map_lookup_elem".to_owned();
    object.programs.swap(0, 1);
    let text = print(&object);
    assert!(text.contains("call fn[@1]") && text.contains("map[@0]") && text.contains("call 0x1"), "{text}");
    assert_eq!(parse(&text).unwrap(), object, "{text}");
}

#[test]
fn the_shortest_program_needs_two_directives_less() {
    let object = parse("; program xdp\nr0 = 2\nexit\n").unwrap();
    validate(&object).unwrap();
    assert_eq!(object.license, "GPL");
    assert_eq!((&*object.programs[0].name, &*object.programs[0].section), ("main", "xdp"));
    let without_program = parse("exit").unwrap();
    assert_eq!((without_program.functions.len(), without_program.programs.len()), (1, 0));
}

#[test]
fn annotations_come_with_their_instruction() {
    let text = "; check: reject\n; program xdp\n  r0 = *(u8 *)(r0 + 0) ; error: uninitialized r0 # why\n  exit";
    let parsed = parse_annotated(text).unwrap();
    let [check, error] = &parsed.annotations[..] else { panic!("two annotations: {:?}", parsed.annotations) };
    assert_eq!((check.line, check.insn, &*check.key, &*check.value), (1, None, "check", "reject"));
    assert_eq!((error.line, &*error.key, &*error.value), (3, "error", "uninitialized r0"));
    assert_eq!(error.insn, Some(parsed.object.functions[0].nodes[0].id));
    assert_eq!(parsed.insn_lines.iter().map(|(_, line)| *line).collect::<Vec<_>>(), [3, 4]);
}

#[test]
fn text_that_runs_past_its_end_parses_but_is_not_valid() {
    let object = parse("r0 = 0").unwrap();
    assert_eq!(validate(&object), Err(Invalid::End { function: "main".to_owned() }));
}

#[test]
fn calls_prefer_functions_of_the_object() {
    let object = parse("call map_lookup_elem\nexit\n; function map_lookup_elem\nexit").unwrap();
    let node = &object.functions[0].nodes[0];
    assert_eq!(node.insn, Insn::Call(CallTarget::Subprogram(0)));
    assert_eq!(node.callee(), Some(FunctionId(1)));
}

#[track_caller]
fn fails(text: &str, line: usize, column: usize, part: &str) {
    let TextError { line: found_line, column: found_column, message } = parse(text).unwrap_err();
    assert!(message.contains(part), "expected `{part}` in `{message}`");
    assert_eq!((found_line, found_column), (line, column), "{message}");
}

#[test]
fn mistakes_are_found_where_they_are() {
    fails("r0 = 0\n  r1 += w2", 2, 11, "both operands have one width");
    fails("\n  r11 = 1", 2, 3, "no register r11");
    fails("r1 = *(u9 *)(r2 + 0)", 1, 8, "access type");
    fails("goto nowhere\nexit", 1, 1, "no label `nowhere`");
    fails("a: exit\na: exit", 2, 1, "defined twice");
    fails("goto end\nend:", 1, 1, "no instruction follows `end:`");
    fails("r1 = 5 ll\ngoto -2\nexit", 2, 1, "no instruction begins -2 slots");
    fails("  call no_such_thing", 1, 3, "no function and no helper `no_such_thing`");
    fails("  r1 = map[m]", 1, 3, "no map `m`");
    fails("call pc+1", 1, 1, "name of the called function");
    fails("; mapp m array", 1, 3, "expected a directive");
    fails("; map m arrray", 1, 9, "expected a map type");
    fails("; map m array keys 4", 1, 19, "`keys` is no map attribute");
    fails("; map m array key 4294967296", 1, 19, "expected bytes");
    fails("; map m array data abc", 1, 20, "hexadecimal");
    fails("; inner m array", 1, 8, "`inner` follows");
    fails("; program nfs", 1, 11, "expected a program type");
    fails("; program xdp entry f\nexit", 1, 21, "no function `f`");
    fails("; program xdp", 1, 1, "no instructions");
    fails("r0 = 0 ; ends here", 1, 9, "line of their own");
    fails("; line @4 1:1 f t\nexit", 2, 1, "a source line is missing");
    fails("; line @4\nexit", 2, 1, "not defined");
    fails("; insn 4294967295\nexit", 2, 1, "no instruction ids left");
    fails("r0 = fn[@3]\nexit", 1, 1, "no function @3");
    fails("r0 = 0x11223344556677889 ll", 1, 6, "not a number");
    fails("r0 = 5000000000", 1, 6, "not between");
    fails("r0 = r1 r2", 1, 9, "end of the line");
}
