/* SPDX-License-Identifier: MIT */
/*
 * Reads how the CPU translates, and makes a provider only of what it knows.
 *
 * The embedder has turned the MMU on its own way: which granule, how many
 * address bits, from which level on, which descriptor format is read from the
 * system registers, never assumed.  What is not supported is refused with a
 * text that names it, before anything is written.
 *
 * Not looked at: the other CPUs, which are taken to be set up alike.
 */
#include "string.h"
#include "tables.h"

/* TCR_EL1 (Arm ARM, "TCR_EL1, Translation Control Register"): two halves of
 * the same form, for TTBR0 and TTBR1. */
#define TCR_HALF(tcr, ttbr) ((tcr) >> (16 * (ttbr)) & 0xffff)
#define TCR_SIZE(half) ((unsigned)(half)&0x3f)
#define TCR_DISABLED ((uint64_t)1 << 7)
#define TCR_INNER(half) ((half) >> 8 & 3)
#define TCR_OUTER(half) ((half) >> 10 & 3)
#define TCR_SHARED(half) ((half) >> 12 & 3)
#define TCR_GRANULE(half) ((unsigned)((half) >> 14 & 3))
#define TCR_IPS(tcr) ((unsigned)((tcr) >> 32 & 7))
#define TCR_DS ((uint64_t)1 << 59)

/* TCR_SHARED() of walks that other CPUs' writes are coherent with: outer or
 * inner shareable; below it are none and a reserved value. */
#define SHARED_LEAST 2

/* TCR2_EL1, by its encoding for assemblers that do not know its name, and what
 * of it gives entries another form. */
#define TCR2_EL1 s3_0_c2_c0_3
#define TCR2_PIE ((uint64_t)1 << 1)
#define TCR2_D128 ((uint64_t)1 << 5)
/* ID_AA64MMFR3_EL1, and its field that says whether there is a TCR2_EL1. */
#define MMFR3_EL1 s3_0_c0_c7_3
#define MMFR3_TCRX(mmfr3) ((unsigned)(mmfr3) & 15)

/* TG0 and TG1 code 4 KiB differently. */
static const unsigned granule_4k[2] = { 0, 2 };

/* The bits of an output address, by TCR_EL1.IPS; 52 and more need DS. */
static const unsigned output_bits[8] = { 32, 36, 40, 42, 44, 48, 48, 48 };

/* TxSZ for 48 bits, and for 31: with fewer, walks begin at level 2, whose
 * entries change, and other roots could not hold the same. */
#define SIZE_LEAST 16
#define SIZE_MOST 33

#define SCTLR_M ((uint64_t)1 << 0)
#define SCTLR_C ((uint64_t)1 << 2)

/* ID_AA64MMFR2_EL1.BBM. */
#define MMFR2_BBM(mmfr2) ((unsigned)((mmfr2) >> 52 & 15))

#define FLAGS_KNOWN                                   \
 (FALLOW_PAGETABLE_ZERO | FALLOW_PAGETABLE_GRANULES | \
	 FALLOW_PAGETABLE_ONE_CPU | FALLOW_PAGETABLE_NO_CONFLICT)

/* Whether the nibble of MAIR_EL1 is a write-back memory: 0b01RW transient, but
 * for 0b0100, which is not cacheable, or 0b11RW not transient. */
static bool write_back(unsigned nibble)
{
	return nibble & 4 && nibble != 4;
}

/* Returns what is not supported of TCR2_EL1, or NULL; 0 where it is not. */
static const char *extension_refused(void)
{
	uint64_t tcr2 = 0;

	if (MMFR3_TCRX(MMU_READ_NAMED(MMFR3_EL1)))
		tcr2 = MMU_READ_NAMED(TCR2_EL1);
	if (tcr2 & TCR2_PIE)
		return "TCR2_EL1.PIE: permissions are indirect";
	if (tcr2 & TCR2_D128)
		return "TCR2_EL1.D128: descriptors of 128 bits";
	return NULL;
}

/* Returns what is not supported of how the CPU walks this TTBR, or NULL. */
static const char *walk_refused(const struct fallow_pagetable_config *config)
{
	uint64_t tcr = MMU_READ(tcr_el1);
	uint64_t half = TCR_HALF(tcr, config->ttbr);

	if (half & TCR_DISABLED)
		return "TCR_EL1.EPD: walks of this TTBR are disabled";
	if (TCR_GRANULE(half) != granule_4k[config->ttbr])
		return "TCR_EL1.TG: the granule is not 4 KiB";
	if (tcr & TCR_DS)
		return "TCR_EL1.DS: 52-bit descriptors (LPA2)";
	if (TCR_SIZE(half) < SIZE_LEAST || TCR_SIZE(half) > SIZE_MOST)
		return "TCR_EL1.TxSZ: not from 16 to 33";
	if (!TCR_INNER(half) || !TCR_OUTER(half))
		return "TCR_EL1.IRGN, ORGN: walks do not use the caches";
	if (TCR_SHARED(half) < SHARED_LEAST &&
		!(config->flags & FALLOW_PAGETABLE_ONE_CPU))
		return "TCR_EL1.SH: walks are not shareable with other CPUs";
	return NULL;
}

/* Returns what is not supported of the CPU's state, or NULL. */
static const char *cpu_refused(const struct fallow_pagetable_config *config)
{
	const char *why;
	uint64_t sctlr;
	unsigned attr;

	if ((MMU_READ(CurrentEL) >> 2 & 3) != 1)
		return "CurrentEL: not at EL1";
	sctlr = MMU_READ(sctlr_el1);
	if (!(sctlr & SCTLR_M) || !(sctlr & SCTLR_C))
		return "SCTLR_EL1: the MMU or the data cache is off";
	why = walk_refused(config);
	if (!why)
		why = extension_refused();
	if (why)
		return why;
	attr = MMU_READ(mair_el1) >> (8 * config->attr_index) & 0xff;
	if (!write_back(attr & 15) || !write_back(attr >> 4))
		return "MAIR_EL1: the attribute is not write-back memory";
	return NULL;
}

/* Returns the status of a configuration that is wrong on any CPU. */
static enum fallow_status config_refused(
	const struct fallow_pagetable_config *config)
{
	uintptr_t base = config->window_base;

	if (config->size != sizeof(*config))
		return FALLOW_BAD_SIZE_FIELD;
	if (!config->frames.take || !config->frames.give)
		return FALLOW_MISSING_ARGUMENT;
	if (config->ttbr > 1 || config->attr_index > 7 ||
		config->flags & ~(unsigned)FLAGS_KNOWN || config->root >> 48 ||
		!config->stop_others != !config->resume_others)
		return FALLOW_BAD_SETTING;
	if ((base | config->window_size | config->root |
		    config->direct_offset) &
		(MMU_PAGE - 1))
		return FALLOW_UNALIGNED;
	if (!config->window_size)
		return FALLOW_WINDOW_TOO_SMALL;
	if (base + config->window_size <= base)
		return FALLOW_RANGE_WRAPS;
	return FALLOW_OK;
}

/* Fills in what follows from the configuration and the CPU's registers. */
static void settings_derive(
	struct pagetable *pt, const struct fallow_pagetable_config *config)
{
	uint64_t tcr = MMU_READ(tcr_el1);
	unsigned bits = 64 - TCR_SIZE(TCR_HALF(tcr, config->ttbr));
	bool one = config->flags & FALLOW_PAGETABLE_ONE_CPU;

	pt->root = config->root;
	pt->direct_offset = config->direct_offset;
	pt->frames = config->frames;
	pt->window_base = config->window_base;
	pt->window_end = config->window_base + config->window_size;
	pt->zero = config->flags & FALLOW_PAGETABLE_ZERO;
	pt->granules = config->flags & FALLOW_PAGETABLE_GRANULES;
	pt->attributes = MMU_NORMAL | MMU_ATTR_FIELD(config->attr_index);
	pt->frame_limit = (uint64_t)1 << output_bits[TCR_IPS(tcr)];
	pt->spare = FALLOW_FRAME_NONE;
	/* The first level is the one whose table holds the highest bit. */
	pt->address_mask = ((uintptr_t)1 << bits) - 1;
	pt->top_level = 3 - (bits - 1 - MMU_PAGE_LOG2) / MMU_LEVEL_LOG2;
	pt->gapless = config->flags & FALLOW_PAGETABLE_NO_CONFLICT &&
		      MMFR2_BBM(MMU_READ(id_aa64mmfr2_el1)) >= 2;
	pt->resizable =
		!pt->granules && (pt->gapless || one || config->stop_others);
	if (pt->gapless || one)
		return;
	pt->stop_others = config->stop_others;
	pt->resume_others = config->resume_others;
	pt->stop_ctx = config->stop_ctx;
}

/* Whether the addresses are all that the TTBR translates. */
static bool window_outside(const struct pagetable *pt, unsigned ttbr)
{
	uintptr_t mask = ~pt->address_mask;
	uintptr_t half = ttbr ? mask : 0;

	return (pt->window_base & mask) != half ||
	       ((pt->window_end - 1) & mask) != half;
}

/*
 * Returns what is in the way in the tables that are there, down to level 1, or
 * NULL.  A block, a page or a restriction there would be the embedder's
 * mapping; that nothing is below is its word.
 */
static const char *tables_refused(const struct pagetable *pt)
{
	uintptr_t step = (uintptr_t)1 << mmu_level_log2(1);
	uintptr_t at = pt->window_base & -step;

	for (; at < pt->window_end; at += step) {
		const uint64_t *table = table_at(pt, pt->root);

		for (unsigned level = pt->top_level; level < 2; level++) {
			uint64_t entry = mmu_get(&table[mmu_index(
				at & pt->address_mask, level)]);

			if (!(entry & MMU_VALID))
				break;
			if (!mmu_is_table(entry))
				return "the window: a block is mapped in it";
			if (entry & MMU_APTABLE)
				return "the window: APTable restricts it";
			table = table_at(pt, entry & MMU_ADDRESS);
		}
		if (at + step < at)
			break;
	}
	return NULL;
}

/* Returns why there can be no provider here, or NULL; fills *pt in. */
static const char *refused(
	struct pagetable *pt, const struct fallow_pagetable_config *config)
{
	const char *why = cpu_refused(config);

	if (why)
		return why;
	settings_derive(pt, config);
	if (window_outside(pt, config->ttbr))
		return "the window: not within the addresses of this TTBR";
	return tables_refused(pt);
}

enum fallow_status fallow_pagetable_init(struct fallow_pagetable *pagetable,
	const struct fallow_pagetable_config *config)
{
	struct pagetable *pt = (struct pagetable *)pagetable;
	enum fallow_status status;

	if (!pagetable || !config)
		return FALLOW_MISSING_ARGUMENT;
	memset(pagetable, 0, sizeof(*pagetable));
	lock_kind_set(&pt->lock, LOCK_TABLES);
	status = config_refused(config);
	if (status == FALLOW_OK) {
		pt->why = refused(pt, config);
		if (pt->why)
			return FALLOW_UNSUPPORTED_CPU;
		if (fl_table_fill_top(pt))
			return FALLOW_OK;
		status = FALLOW_NO_TABLE_MEMORY;
	}
	pt->why = fallow_status_text(status);
	return status;
}

const char *fallow_pagetable_why(const struct fallow_pagetable *pagetable)
{
	return ((const struct pagetable *)pagetable)->why;
}
