//! What tells the boot ROM that this is a program: section 5.9.5 of the data sheet.

/// A block with one item and a link to itself, since there is no other.
#[unsafe(link_section = ".start_block")]
#[used]
static IMAGE_DEF: [u32; 5] = [
    // A block begins.
    0xffff_ded3,
    // The type of the image, an item of one word: a program for RP2350's Arm cores, secure.
    0x1021_0142,
    // The last item: one word came before it.
    0x0000_01ff,
    // Where the next block is, from here.
    0x0000_0000,
    // The block ends.
    0xab12_3579,
];
