//! Lists of children: the operations of a contended lock on a getChildren2 reply.
//!
//! * `touch`: reads one byte of each cache line, and parses nothing.
//! * `decode`: checks every length once; the list is a slice of the frame.
//! * `iterate`: visits every name.
//! * `rank`: finds one contender's position, its predecessor and the one before that.
//! * `sort`: sorts all names in Curator's order.
//! * `sort_text`: sorts names whose keys are text. Contenders get them after the sequence number
//!   2,147,483,647, when servers count from -2,147,483,648 up (`lock--2147483648`).
//! * `naive`: the way of most clients: a `String` for each name, then a sort that compares the text
//!   after the lock name.
//!
//! **The limit.** A name of 55 bytes takes 59 in the frame, so each child begins in another cache
//! line. Any operation on all children must touch every line of the list, which is 5.9 MB for
//! 100,000 children. `touch` does only that, in any order that the processor chooses. The lengths
//! must be read one after the other, because each gives the position of the next, at 3.6 ns a
//! child. `iterate` measures this, and no single pass over the names can be faster. `rank` also
//! reads ten digits and makes two comparisons, and takes twice as long. `sort` also sorts one word
//! for each child.
//!
//! Medians of one run, on two virtual cores of a Xeon at 2.3 GHz under other load:
//!
//! | children | touch | iterate | decode | rank | sort | sort_text | naive |
//! |---|---|---|---|---|---|---|---|
//! | 10 | 0.006 us | 0.024 us | 0.12 us | 0.13 us | 0.14 us | 0.46 us | 3.4 us |
//! | 1,000 | 0.57 us | 4.5 us | 5.6 us | 7.3 us | 16.6 us | 112 us | 742 us |
//! | 10,000 | 4.7 us | 36 us | 37 us | 70 us | 190 us | 1.3 ms | 10.1 ms |
//! | 100,000 | 0.22 ms | 0.39 ms | 0.45 ms | 0.82 ms | 2.5 ms | 24 ms | 131 ms |
//!
//! The targets are 12 us and 40 us for `rank` and `sort` of 1,000 children, 1.2 ms and 6 ms of
//! 100,000. They apply to random order, in which a server lists children. In ascending order every
//! child is for a moment the nearest one ahead, and `rank` takes about twice as long.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use zk_benches::{LIST_LENGTHS, children_reply, curator_names};
use zk_proto::{ChildList, ChildrenReply, Decode};
use zk_recipes::child_order::SequenceOrder;

const MUTEX: SequenceOrder<'static> = SequenceOrder::new(&["lock-"]);

fn child_list(c: &mut Criterion) {
    let mut group = c.benchmark_group("child_list");
    for len in LIST_LENGTHS {
        let names = curator_names(len);
        let middle = format!("lock-{:010}", len / 2);
        let own = names.iter().find(|name| name.ends_with(&middle)).cloned().unwrap_or_default();
        let frame = children_reply(&names);
        let Ok(ChildrenReply { children, .. }) = ChildrenReply::from_frame(&frame) else { return };
        group.throughput(Throughput::Elements(u64::from(len)));

        group.bench_function(BenchmarkId::new("touch", len), |b| {
            b.iter(|| touch(black_box(&frame)));
        });
        group.bench_function(BenchmarkId::new("decode", len), |b| {
            b.iter(|| ChildrenReply::from_frame(black_box(&frame)));
        });
        group.bench_function(BenchmarkId::new("iterate", len), |b| {
            b.iter(|| black_box(&children).iter().map(<[u8]>::len).sum::<usize>());
        });
        group.bench_function(BenchmarkId::new("rank", len), |b| {
            b.iter(|| MUTEX.rank(black_box(&children), own.as_bytes()));
        });
        group.bench_function(BenchmarkId::new("sort", len), |b| {
            b.iter(|| MUTEX.sort(black_box(&children)));
        });
        let overflown = ChildList::from_names(names.iter().map(|name| text_key(name)));
        group.bench_function(BenchmarkId::new("sort_text", len), |b| {
            b.iter(|| MUTEX.sort(black_box(&overflown)));
        });
        group.bench_function(BenchmarkId::new("naive", len), |b| {
            b.iter(|| naive(&frame));
        });
    }
    group.finish();
}

/// Reads one byte of every cache line.
fn touch(frame: &bytes::Bytes) -> u64 {
    frame.iter().step_by(64).map(|byte| u64::from(*byte)).sum()
}

/// Rewrites `…-lock-0000000042` as `…-lock--214000042`, which has the same length.
fn text_key(name: &str) -> String {
    let (front, digits) = name.split_at(name.len() - 10);
    format!("{front}-214{}", &digits[4..])
}

fn naive(frame: &bytes::Bytes) -> Option<Vec<String>> {
    let reply = ChildrenReply::from_frame(black_box(frame)).ok()?;
    let mut names: Vec<String> = reply.children.names().map(|name| name.into_owned()).collect();
    let key = |name: &String| name.rfind("lock-").map_or(0, |at| at + "lock-".len());
    names.sort_by(|a, b| a[key(a)..].cmp(&b[key(b)..]));
    Some(names)
}

criterion_group!(benches, child_list);
criterion_main!(benches);
