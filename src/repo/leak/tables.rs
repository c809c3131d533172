//! Ids in git's binary tables: pack indexes, commit graphs, multi-pack indexes, bundles. Pure, for bytes of strangers.

use git2::Oid;

fn u32_at(data: &[u8], at: usize) -> Option<usize> {
    let bytes = data.get(at..at.checked_add(4)?)?;
    usize::try_from(u32::from_be_bytes(bytes.try_into().ok()?)).ok()
}

fn u64_at(data: &[u8], at: usize) -> Option<usize> {
    let bytes = data.get(at..at.checked_add(8)?)?;
    usize::try_from(u64::from_be_bytes(bytes.try_into().ok()?)).ok()
}

/// The ids of a pack's index (versions 1 and 2); `None` where it is none.
pub(super) fn pack_index(data: &[u8]) -> Option<Vec<Oid>> {
    const FANOUT: usize = 256 * 4;
    let (start, step, skip) = if data.starts_with(b"\xfftOc") {
        if u32_at(data, 4)? != 2 {
            return None;
        }
        (8 + FANOUT, 20, 0)
    } else {
        (FANOUT, 24, 4)
    };
    let count = u32_at(data, start - 4)?;
    let table = data.get(start..start.checked_add(count.checked_mul(step)?)?)?;
    table.chunks_exact(step).map(|row| Oid::from_bytes(&row[skip..]).ok()).collect()
}

/// How many objects a pack says that it has; `None` where it is no pack.
pub(super) fn pack_objects(start: &[u8]) -> Option<usize> {
    if !start.starts_with(b"PACK") || !matches!(u32_at(start, 4)?, 2 | 3) {
        return None;
    }
    u32_at(start, 8)
}

/// The ids in a commit graph or a multi-pack index: their `OIDL` chunk. `None` where the file is neither.
pub(super) fn chunked(data: &[u8]) -> Option<Vec<Oid>> {
    let (chunks, header) = if data.starts_with(b"CGPH") {
        (usize::from(*data.get(6)?), 8)
    } else if data.starts_with(b"MIDX") {
        (usize::from(*data.get(6)?), 12)
    } else {
        return None;
    };
    for at in (0..chunks).map(|n| header + n * 12) {
        if data.get(at..at + 4)? == b"OIDL" {
            let (start, end) = (u64_at(data, at + 4)?, u64_at(data, at + 16)?);
            let table = data.get(start..end)?;
            return table.chunks_exact(20).map(|row| Oid::from_bytes(row).ok()).collect();
        }
    }
    Some(Vec::new())
}

/// The refs of a bundle (versions 2 and 3), from its first bytes; `None` where it is none.
pub(super) fn bundle_refs(start: &[u8]) -> Option<Vec<(Oid, String)>> {
    let rest = start.strip_prefix(b"# v2 git bundle\n").or_else(|| start.strip_prefix(b"# v3 git bundle\n"))?;
    let mut refs = Vec::new();
    for line in rest.split(|b| *b == b'\n').take_while(|line| !line.is_empty()) {
        // Capabilities start with `@`, commits that must be there already with `-`.
        if let Some(id) = line.get(..40).and_then(crate::repo::raw::oid) {
            refs.push((id, super::names::shown(line.get(41..).unwrap_or_default())));
        }
    }
    Some(refs)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(n: u8) -> Oid {
        Oid::from_bytes(&[n; 20]).unwrap()
    }

    #[test]
    fn both_versions_of_pack_indexes() {
        let mut fanout = vec![0_u8; 255 * 4];
        fanout.extend(2_u32.to_be_bytes());
        let two = [b"\xfftOc\0\0\0\x02".as_slice(), &fanout, &[1; 20], &[2; 20], &[0; 56]].concat();
        assert_eq!(pack_index(&two).unwrap(), [id(1), id(2)]);
        let one = [fanout.as_slice(), &[0; 4], &[1; 20], &[0; 4], &[2; 20], &[0; 40]].concat();
        assert_eq!(pack_index(&one).unwrap(), [id(1), id(2)]);
        assert_eq!(pack_index(&two[..1050]), None);
        assert_eq!(pack_index(b""), None);
    }

    #[test]
    fn chunk_files_give_their_ids() {
        let chunk = |name: &[u8], at: u64| [name, &at.to_be_bytes()].concat();
        let body =
            [b"CGPH\x01\x01\x02\0".as_slice(), &chunk(b"OIDF", 44), &chunk(b"OIDL", 44), &chunk(&[0; 4], 64), &[7; 20]]
                .concat();
        assert_eq!(chunked(&body).unwrap(), [id(7)]);
        assert_eq!(chunked(&body[..50]), None);
        assert_eq!(chunked(b"nothing"), None);
    }

    #[test]
    fn bundles_and_packs() {
        let hex = "1".repeat(40);
        let text = format!("# v3 git bundle\n@object-format=sha1\n-{hex} before\n{hex} refs/heads/x\n\nPACK");
        assert_eq!(bundle_refs(text.as_bytes()).unwrap(), [(Oid::from_str(&hex).unwrap(), "refs/heads/x".to_owned())]);
        assert_eq!(bundle_refs(b"# v2 git"), None);
        assert_eq!(pack_objects(b"PACK\0\0\0\x02\0\0\x01\x02rest"), Some(258));
        assert_eq!(pack_objects(b"PACK\0\0\0\x09\0\0\x01\x02"), None);
    }

    proptest! {
        #[test]
        fn nothing_panics(start in 0_usize..4, data in prop::collection::vec(any::<u8>(), 0..1500)) {
            let magic: [&[u8]; 4] = [b"", b"\xfftOc\0\0\0\x02", b"CGPH\x01\x01\xff\0", b"MIDX\x01\x01\xff\0"];
            let data = [magic[start], &data].concat();
            let _ = (pack_index(&data), chunked(&data), pack_objects(&data), bundle_refs(&data));
        }
    }
}
