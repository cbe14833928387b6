/* SPDX-License-Identifier: MIT */
/*
 * C++'s replaceable operators over the heap: all forms of new and delete.
 *
 * libfallow.so must run C programs, where there is no C++ library.  So it is
 * linked without one, and the few functions of the C++ library that failure
 * takes are weak: in a C++ program the dynamic linker finds them, elsewhere
 * they are NULL and nobody calls these operators.  One case is between: a C
 * program that loads C++ plug-ins has its C++ library out of sight.  Then it
 * is asked for by name when memory has run out, and if it cannot be had, the
 * program is told and ends, as it would for an exception that nobody catches.
 *
 * It is a C++ file, and not C with the names spelled out, because of one rule:
 * the new handler may throw, and the nothrow forms then return NULL.
 *
 * Of a sized or aligned delete nothing is checked: the heap knows both.
 */
#include <cstddef>
#include <cstdlib>
#include <new>

#include <dlfcn.h>
#include <unistd.h>

extern "C" {
#include "linux/preload.h"
#include "linux/text.h"
}

#define EXPORT __attribute__((visibility("default")))

/* What is only there in a C++ program. */
__asm__(".weak _ZSt15get_new_handlerv\n"
	".weak _ZSt17__throw_bad_allocv\n"
	".weak __cxa_begin_catch\n"
	".weak __cxa_end_catch\n"
	".weak __gxx_personality_v0\n"
	".weak _Unwind_Resume\n");

namespace std {
void __throw_bad_alloc() __attribute__((noreturn));
}

namespace {

typedef std::new_handler handler_get();
typedef void bad_alloc_throw();

/* Hides from the compiler that a function's address is never NULL. */
template <typename F> F *maybe(F *function)
{
	__asm__("" : "+r"(function));
	return function;
}

/* A function of the C++ library: the weak one, or that of a library which is
 * loaded but out of sight; NULL if there is none. */
template <typename F> F *library_find(F *weak, const char *name)
{
	void *library;

	if (maybe(weak) != nullptr)
		return weak;
	library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
	if (library == nullptr)
		return nullptr;
	/* Not closed: it stays as long as this program does. */
	return reinterpret_cast<F *>(dlsym(library, name));
}

/* The program's new handler, or NULL. */
std::new_handler handler_now()
{
	handler_get *get = library_find(
		&std::get_new_handler, "_ZSt15get_new_handlerv");

	return get == nullptr ? nullptr : get();
}

/* Throws std::bad_alloc. */
[[noreturn]] void bad_alloc()
{
	bad_alloc_throw *thrower = library_find<bad_alloc_throw>(
		&std::__throw_bad_alloc, "_ZSt17__throw_bad_allocv");
	struct board_text text;

	if (thrower != nullptr)
		thrower();
	board_text_begin(&text);
	board_text_put(&text, "operator new has no memory, and there is no "
			      "std::bad_alloc to throw\n");
	board_text_end(&text);
	abort();
}

/* What the C names know of: a block of any alignment, or NULL. */
void *block(size_t size, size_t align)
{
	void *p;

	if (align <= __STDCPP_DEFAULT_NEW_ALIGNMENT__) {
		p = fallow_alloc(&board_heap, size);
		return p != nullptr ? p
				    : board_again(BOARD_ALLOC, nullptr, 0, size);
	}
	p = fallow_alloc_aligned(&board_heap, align, size);
	return p != nullptr ? p
			    : board_again(BOARD_ALIGNED, nullptr, align, size);
}

/* The loop that the standard asks for: the new handler is to make room. */
__attribute__((cold, noinline)) void *block_or_throw(size_t size, size_t align)
{
	for (;;) {
		void *p = block(size, align);
		std::new_handler handler;

		if (p != nullptr)
			return p;
		handler = handler_now();
		if (handler == nullptr)
			bad_alloc();
		handler();
	}
}

/* The same; NULL where the handler throws or there is none. */
__attribute__((cold, noinline)) void *block_or_null(
	size_t size, size_t align) noexcept
{
	/* Without what catches nothing can be thrown that would be caught. */
	if (maybe(&std::get_new_handler) == nullptr)
		return block(size, align);
	try {
		for (;;) {
			void *p = block(size, align);
			std::new_handler handler;

			if (p != nullptr)
				return p;
			handler = std::get_new_handler();
			if (handler == nullptr)
				return nullptr;
			handler();
		}
	} catch (...) {
		return nullptr;
	}
}

inline void *block_new_nothrow(size_t size) noexcept
{
	void *p = fallow_alloc(&board_heap, size);

	return __builtin_expect(p != nullptr, 1) ? p : block_or_null(size, 0);
}

} // namespace

void *board_new_again(size_t size)
{
	return block_or_throw(size, 0);
}

EXPORT void *operator new(std::size_t size)
{
	return board_new(size);
}

EXPORT void *operator new[](std::size_t size)
{
	return board_new(size);
}

EXPORT void *operator new(std::size_t size, const std::nothrow_t &) noexcept
{
	return block_new_nothrow(size);
}

EXPORT void *operator new[](std::size_t size, const std::nothrow_t &) noexcept
{
	return block_new_nothrow(size);
}

EXPORT void *operator new(std::size_t size, std::align_val_t align)
{
	return block_or_throw(size, static_cast<size_t>(align));
}

EXPORT void *operator new[](std::size_t size, std::align_val_t align)
{
	return block_or_throw(size, static_cast<size_t>(align));
}

EXPORT void *operator new(std::size_t size, std::align_val_t align,
	const std::nothrow_t &) noexcept
{
	return block_or_null(size, static_cast<size_t>(align));
}

EXPORT void *operator new[](std::size_t size, std::align_val_t align,
	const std::nothrow_t &) noexcept
{
	return block_or_null(size, static_cast<size_t>(align));
}

EXPORT void operator delete(void *p) noexcept
{
	board_delete(p);
}

EXPORT void operator delete[](void *p) noexcept
{
	board_delete(p);
}

EXPORT void operator delete(void *p, const std::nothrow_t &) noexcept
{
	board_delete(p);
}

EXPORT void operator delete[](void *p, const std::nothrow_t &) noexcept
{
	board_delete(p);
}

EXPORT void operator delete(void *p, std::size_t) noexcept
{
	board_delete(p);
}

EXPORT void operator delete[](void *p, std::size_t) noexcept
{
	board_delete(p);
}

/* These are rare, and keep the heap's function for any heap: where all calls of it
 * were for the one, gcc made copies of its slow parts without a parameter, and the
 * registers of free() came out one move worse. */
EXPORT void operator delete(void *p, std::align_val_t) noexcept
{
	fallow_free(&board_heap, p);
}

EXPORT void operator delete[](void *p, std::align_val_t) noexcept
{
	fallow_free(&board_heap, p);
}

EXPORT void operator delete(void *p, std::align_val_t,
	const std::nothrow_t &) noexcept
{
	fallow_free(&board_heap, p);
}

EXPORT void operator delete[](void *p, std::align_val_t,
	const std::nothrow_t &) noexcept
{
	fallow_free(&board_heap, p);
}

EXPORT void operator delete(void *p, std::size_t, std::align_val_t) noexcept
{
	fallow_free(&board_heap, p);
}

EXPORT void operator delete[](void *p, std::size_t, std::align_val_t) noexcept
{
	fallow_free(&board_heap, p);
}
