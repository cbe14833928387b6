// SPDX-License-Identifier: MIT
/*
 * C++'s operators under libfallow.so: every replaceable form is the library's,
 * gives and takes what it should, and fails as the standard says: by
 * std::bad_alloc after the new handler, or by a null pointer.
 */
#include <cstddef>
#include <cstdint>
#include <map>
#include <new>
#include <string>

extern "C" {
#include "library.h"
}

namespace {

volatile std::size_t huge = std::size_t(1) << 45;

struct alignas(256) Wide {
	char bytes[300];
};

unsigned handled, handler_throws_at;

void handler()
{
	if (++handled == handler_throws_at)
		throw std::bad_alloc();
}

/* Sets the handler, which throws the nth time. */
void handler_begin(unsigned throws_at)
{
	handled = 0;
	handler_throws_at = throws_at;
	std::set_new_handler(throws_at == 0 ? nullptr : handler);
}

void test_operators_are_the_library()
{
	static const char *const names[] = { "_Znwm", "_Znam",
		"_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t",
		"_ZnwmSt11align_val_t", "_ZnamSt11align_val_t",
		"_ZnwmSt11align_val_tRKSt9nothrow_t",
		"_ZnamSt11align_val_tRKSt9nothrow_t", "_ZdlPv", "_ZdaPv",
		"_ZdlPvRKSt9nothrow_t", "_ZdaPvRKSt9nothrow_t", "_ZdlPvm",
		"_ZdaPvm", "_ZdlPvSt11align_val_t", "_ZdaPvSt11align_val_t",
		"_ZdlPvSt11align_val_tRKSt9nothrow_t",
		"_ZdaPvSt11align_val_tRKSt9nothrow_t",
		"_ZdlPvmSt11align_val_t", "_ZdaPvmSt11align_val_t" };

	for (const char *name : names)
		if (!of_library(dlsym(RTLD_DEFAULT, name)))
			test_fail(__FILE__, __LINE__, name);
}

void test_operators_work()
{
	std::map<int, std::string> map;

	for (int i = 0; i < 20000; i++)
		map[i * 7919 % 10007] += std::string(std::size_t(i % 300), 'x');
	CHECK_EQUAL(map.size(), 10007);
	map.clear();
	for (std::size_t n = 1; n < 2000000; n = n * 3 + 1) {
		char *p = static_cast<char *>(opaque(new char[n]));
		int *q = new (std::nothrow) int[n];

		p[n - 1] = 1;
		q[n - 1] = 2;
		delete[] p;
		delete[] q;
	}
	::operator delete(::operator new(100), std::nothrow);
	::operator delete(::operator new(100), std::size_t(100));
	::operator delete[](::operator new[](0), std::size_t(0));
	::operator delete(nullptr);
}

void test_operators_aligned()
{
	for (int i = 0; i < 100; i++) {
		Wide *one = new Wide, *some = new Wide[5];
		void *big = ::operator new(10, std::align_val_t(1 << 20));
		void *none = ::operator new[](
			77, std::align_val_t(64), std::nothrow);

		CHECK_EQUAL(reinterpret_cast<std::uintptr_t>(one) % 256, 0);
		CHECK_EQUAL(reinterpret_cast<std::uintptr_t>(some) % 256, 0);
		CHECK_EQUAL(reinterpret_cast<std::uintptr_t>(big) % (1 << 20),
			0);
		CHECK(none != nullptr);
		delete one;
		delete[] some;
		::operator delete(big, std::size_t(10),
			std::align_val_t(1 << 20));
		::operator delete[](none, std::align_val_t(64), std::nothrow);
	}
}

/* Whether the form throws std::bad_alloc. */
template <typename Form> bool throws(Form form)
{
	try {
		opaque(form());
	} catch (const std::bad_alloc &) {
		return true;
	}
	return false;
}

void test_operators_throw()
{
	for (unsigned times = 0; times <= 3; times += 3) {
		handler_begin(times);
		CHECK(throws([] { return ::operator new(huge); }));
		CHECK_EQUAL(handled, times);
		handler_begin(times);
		CHECK(throws([] { return ::operator new[](huge); }));
		CHECK_EQUAL(handled, times);
		handler_begin(times);
		CHECK(throws([] {
			return ::operator new(huge, std::align_val_t(64));
		}));
		CHECK_EQUAL(handled, times);
		handler_begin(times);
		CHECK(throws([] {
			return ::operator new[](huge, std::align_val_t(64));
		}));
		CHECK_EQUAL(handled, times);
	}
	handler_begin(0);
	CHECK(throws([] { return new char[huge]; }));
}

void test_operators_nothrow()
{
	for (unsigned times = 0; times <= 3; times += 3) {
		handler_begin(times);
		CHECK(opaque(::operator new(huge, std::nothrow)) == nullptr);
		CHECK_EQUAL(handled, times);
		handler_begin(times);
		CHECK(opaque(::operator new[](huge, std::nothrow)) == nullptr);
		CHECK_EQUAL(handled, times);
		handler_begin(times);
		CHECK(opaque(::operator new(huge, std::align_val_t(64),
			      std::nothrow)) == nullptr);
		CHECK_EQUAL(handled, times);
	}
	handler_begin(0);
}

} // namespace

extern "C" {
extern const struct test tests[];
const struct test tests[] = {
	{ "operators_are_the_library", test_operators_are_the_library },
	{ "operators_work", test_operators_work },
	{ "operators_aligned", test_operators_aligned },
	{ "operators_throw", test_operators_throw },
	{ "operators_nothrow", test_operators_nothrow },
	{ nullptr, nullptr },
};
}
